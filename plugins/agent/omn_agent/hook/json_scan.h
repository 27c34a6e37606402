/* A strict scanner of JSON (RFC 8259) in UTF-8: it finds where values end, and copies none. */
#ifndef OMN_AGENT_JSON_SCAN_H
#define OMN_AGENT_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* A stretch of the text. */
struct span {
    const char *at;
    size_t length;
};

/* Where a scanner stands in its text. */
struct scanner {
    const char *at;
    const char *end;
};

void scan_space(struct scanner *scanner);

/* Pass one character that must be next. */
bool scan_character(struct scanner *scanner, char wanted);

/* Pass a string with its quotes; `span` holds what is between them, escapes as they are. */
bool scan_string(struct scanner *scanner, struct span *span);

/* Pass any value; `span` holds it as it is written. False where it is none, or is nested past 256 levels. */
bool scan_value(struct scanner *scanner, struct span *span);

/* Call `take` for each member of an object, its name and its value as they are written. */
bool scan_object(struct scanner *scanner, bool (*take)(void *context, struct span name, struct span value),
                 void *context);

/* Count the UTF-16 units of what stands between a string's quotes. */
size_t count_units(struct span text);

#endif
