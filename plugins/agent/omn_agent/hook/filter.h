/* What of a hook's input is handed on: an allow-list of names, and with content the prompt and a tool's input. */
#ifndef OMN_AGENT_FILTER_H
#define OMN_AGENT_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "json_scan.h"

/* Text that grows. */
struct text {
    char *at;
    size_t length;
    size_t room;
};

enum content {
    CONTENT_OFF,
    CONTENT_ON,
};

/* Append what `format` makes. */
void append(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Append the filtered members of a hook's input as one object. False, with nothing appended, where it is no object. */
bool append_filtered(struct text *text, struct span input, enum content content);

#endif
