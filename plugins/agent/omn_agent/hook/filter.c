#include "filter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_WORD = 64,
    LONGEST_NAME = 512,
    LONGEST_PATH = 8192,
};

/* How much of a member may be kept: a bare word of an enumeration, a name or an id, a path, a number or a flag. */
enum shape { WORD, NAME, PATH, NUMBER };

static const struct {
    const char *name;
    enum shape shape;
} KEPT[] = {
    {"session_id", NAME},
    {"prompt_id", NAME},
    {"turn_id", NAME},
    {"agent_id", NAME},
    {"agent_type", NAME},
    {"tool_name", NAME},
    {"tool_use_id", NAME},
    {"model", NAME},
    {"hook_event_name", WORD},
    {"permission_mode", WORD},
    {"source", WORD},
    {"trigger", WORD},
    {"reason", WORD},
    {"transcript_path", PATH},
    {"agent_transcript_path", PATH},
    {"cwd", PATH},
    {"duration_ms", NUMBER},
    {"is_interrupt", NUMBER},
};

struct filtering {
    struct text *text;
    enum content content;
    bool is_first;
};

static void reserve(struct text *text, size_t more)
{
    if (text->length + more < text->room)
        return;
    text->room = 2 * text->room + more + 1024;
    text->at = realloc(text->at, text->room);
    if (text->at == NULL)
        exit(0); /* a hook that fails would be shown to the person who works */
}

void append(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    reserve(text, (size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(text->at + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

static void append_member(struct filtering *filtering, const char *name, struct span value)
{
    append(filtering->text, "%s\"%s\":", filtering->is_first ? "" : ",", name);
    filtering->is_first = false;
    reserve(filtering->text, value.length);
    memcpy(filtering->text->at + filtering->text->length, value.at, value.length);
    filtering->text->length += value.length;
}

static bool is_named(struct span name, const char *wanted)
{
    return name.length == strlen(wanted) && memcmp(name.at, wanted, name.length) == 0;
}

static bool is_word(struct span text)
{
    for (size_t index = 0; index < text.length; index++) {
        char character = text.at[index];
        bool is_letter = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
        if (!is_letter && !(character >= '0' && character <= '9') && character != '_' && character != '-')
            return false;
    }
    return text.length <= LONGEST_WORD;
}

static bool is_shaped(struct span value, enum shape shape)
{
    bool is_string = value.at[0] == '"';
    struct span inside = {value.at + 1, is_string ? value.length - 2 : 0};
    switch (shape) {
    case WORD:
        return is_string && is_word(inside);
    case NAME:
        return is_string && inside.length <= LONGEST_NAME;
    case PATH:
        return is_string && inside.length <= LONGEST_PATH;
    default:
        return !is_string && memchr("{[n", value.at[0], 3) == NULL;
    }
}

/* Keep the child that a tool's result names. */
static bool take_result_member(void *context, struct span name, struct span value)
{
    if ((is_named(name, "agentId") || is_named(name, "agent_id")) && is_shaped(value, NAME))
        append_member(context, "child_id", value);
    return true;
}

/* Keep the word of an effort's level. */
static bool take_effort_member(void *context, struct span name, struct span value)
{
    if (is_named(name, "level") && is_shaped(value, WORD))
        append_member(context, "effort", value);
    return true;
}

static void take_prompt(struct filtering *filtering, struct span value)
{
    if (value.at[0] != '"')
        return;
    if (filtering->content == CONTENT_ON) {
        append_member(filtering, "prompt", value);
        return;
    }
    char number[32];
    struct span inside = {value.at + 1, value.length - 2};
    int length = snprintf(number, sizeof number, "%zu", count_units(inside));
    append_member(filtering, "prompt_length", (struct span){number, (size_t)length});
}

static bool take_member(void *context, struct span name, struct span value)
{
    struct filtering *filtering = context;
    struct scanner inside = {value.at, value.at + value.length};
    for (size_t index = 0; index < sizeof KEPT / sizeof *KEPT; index++)
        if (is_named(name, KEPT[index].name) && is_shaped(value, KEPT[index].shape))
            append_member(filtering, KEPT[index].name, value);
    if (is_named(name, "prompt"))
        take_prompt(filtering, value);
    else if (is_named(name, "tool_input") && filtering->content == CONTENT_ON)
        append_member(filtering, "tool_input", value);
    else if (is_named(name, "tool_response") && value.at[0] == '{')
        scan_object(&inside, take_result_member, filtering);
    else if (is_named(name, "effort") && value.at[0] == '{')
        scan_object(&inside, take_effort_member, filtering);
    return true;
}

bool append_filtered(struct text *text, struct span input, enum content content)
{
    size_t before = text->length;
    struct scanner scanner = {input.at, input.at + input.length};
    struct filtering filtering = {text, content, true};
    append(text, "{");
    bool is_object = scan_object(&scanner, take_member, &filtering);
    scan_space(&scanner);
    if (!is_object || scanner.at != scanner.end) {
        text->length = before;
        return false;
    }
    append(text, "}");
    return true;
}
