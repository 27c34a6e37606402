#include "json_scan.h"

#include <string.h>

enum { DEEPEST = 256 };

static bool scan_nested(struct scanner *scanner, int depth);

void scan_space(struct scanner *scanner)
{
    while (scanner->at < scanner->end && memchr(" \t\n\r", *scanner->at, 4) != NULL)
        scanner->at++;
}

bool scan_character(struct scanner *scanner, char wanted)
{
    if (scanner->at == scanner->end || *scanner->at != wanted)
        return false;
    scanner->at++;
    return true;
}

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static bool is_hexadecimal(char character)
{
    return is_digit(character) || (character >= 'a' && character <= 'f') || (character >= 'A' && character <= 'F');
}

/* Pass what follows a backslash. */
static bool scan_escape(struct scanner *scanner)
{
    if (scanner->at == scanner->end)
        return false;
    char kind = *scanner->at++;
    if (kind != 'u')
        return memchr("\"\\/bfnrt", kind, 8) != NULL;
    if (scanner->end - scanner->at < 4)
        return false;
    for (int index = 0; index < 4; index++)
        if (!is_hexadecimal(*scanner->at++))
            return false;
    return true;
}

/* Pass one character beyond ASCII: shortest form, no surrogate, at most U+10FFFF (the Unicode standard, table 3-7). */
static bool scan_multibyte(struct scanner *scanner)
{
    unsigned char first = (unsigned char)*scanner->at;
    unsigned char low = 0x80, high = 0xBF;
    int following;
    if (first >= 0xC2 && first <= 0xDF)
        following = 1;
    else if (first >= 0xE0 && first <= 0xEF)
        following = 2;
    else if (first >= 0xF0 && first <= 0xF4)
        following = 3;
    else
        return false;
    if (first == 0xE0)
        low = 0xA0;
    else if (first == 0xED)
        high = 0x9F;
    else if (first == 0xF0)
        low = 0x90;
    else if (first == 0xF4)
        high = 0x8F;
    if (scanner->end - scanner->at <= following)
        return false;
    scanner->at++;
    for (int index = 0; index < following; index++, scanner->at++) {
        unsigned char byte = (unsigned char)*scanner->at;
        if (byte < low || byte > high)
            return false;
        low = 0x80;
        high = 0xBF;
    }
    return true;
}

bool scan_string(struct scanner *scanner, struct span *span)
{
    if (!scan_character(scanner, '"'))
        return false;
    span->at = scanner->at;
    while (scanner->at < scanner->end) {
        unsigned char byte = (unsigned char)*scanner->at;
        if (byte == '"') {
            span->length = (size_t)(scanner->at++ - span->at);
            return true;
        }
        if (byte < 0x20)
            return false;
        if (byte >= 0x80) {
            if (!scan_multibyte(scanner))
                return false;
            continue;
        }
        scanner->at++;
        if (byte == '\\' && !scan_escape(scanner))
            return false;
    }
    return false;
}

static bool scan_digits(struct scanner *scanner)
{
    const char *start = scanner->at;
    while (scanner->at < scanner->end && is_digit(*scanner->at))
        scanner->at++;
    return scanner->at > start;
}

static bool scan_number(struct scanner *scanner)
{
    scan_character(scanner, '-');
    if (!scan_character(scanner, '0') && !scan_digits(scanner))
        return false;
    if (scan_character(scanner, '.') && !scan_digits(scanner))
        return false;
    if (scan_character(scanner, 'e') || scan_character(scanner, 'E')) {
        if (!scan_character(scanner, '+'))
            scan_character(scanner, '-');
        return scan_digits(scanner);
    }
    return true;
}

static bool scan_word(struct scanner *scanner, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(scanner->end - scanner->at) < length || memcmp(scanner->at, word, length) != 0)
        return false;
    scanner->at += length;
    return true;
}

/* Pass an array or an object, whose opening bracket is next. */
static bool scan_container(struct scanner *scanner, int depth)
{
    bool is_object = *scanner->at++ == '{';
    char closing = is_object ? '}' : ']';
    scan_space(scanner);
    if (scan_character(scanner, closing))
        return true;
    for (;;) {
        struct span name;
        scan_space(scanner);
        if (is_object) {
            if (!scan_string(scanner, &name))
                return false;
            scan_space(scanner);
            if (!scan_character(scanner, ':'))
                return false;
        }
        if (!scan_nested(scanner, depth + 1))
            return false;
        if (scan_character(scanner, closing))
            return true;
        if (!scan_character(scanner, ','))
            return false;
    }
}

/* Pass a value with the space around it. */
static bool scan_nested(struct scanner *scanner, int depth)
{
    struct span ignored;
    bool is_value;
    scan_space(scanner);
    if (scanner->at == scanner->end || depth > DEEPEST)
        return false;
    switch (*scanner->at) {
    case '{':
    case '[':
        is_value = scan_container(scanner, depth);
        break;
    case '"':
        is_value = scan_string(scanner, &ignored);
        break;
    case 't':
        is_value = scan_word(scanner, "true");
        break;
    case 'f':
        is_value = scan_word(scanner, "false");
        break;
    case 'n':
        is_value = scan_word(scanner, "null");
        break;
    default:
        is_value = scan_number(scanner);
    }
    scan_space(scanner);
    return is_value;
}

bool scan_value(struct scanner *scanner, struct span *span)
{
    scan_space(scanner);
    span->at = scanner->at;
    if (!scan_nested(scanner, 0))
        return false;
    span->length = (size_t)(scanner->at - span->at);
    while (span->length > 0 && memchr(" \t\n\r", span->at[span->length - 1], 4) != NULL)
        span->length--;
    return true;
}

bool scan_object(struct scanner *scanner, bool (*take)(void *context, struct span name, struct span value),
                 void *context)
{
    scan_space(scanner);
    if (!scan_character(scanner, '{'))
        return false;
    scan_space(scanner);
    if (scan_character(scanner, '}'))
        return true;
    for (;;) {
        struct span name, value;
        scan_space(scanner);
        if (!scan_string(scanner, &name))
            return false;
        scan_space(scanner);
        if (!scan_character(scanner, ':') || !scan_value(scanner, &value) || !take(context, name, value))
            return false;
        if (scan_character(scanner, '}'))
            return true;
        if (!scan_character(scanner, ','))
            return false;
    }
}

size_t count_units(struct span text)
{
    size_t units = 0;
    for (size_t index = 0; index < text.length; units++) {
        unsigned char byte = (unsigned char)text.at[index];
        if (byte == '\\')
            index += text.at[index + 1] == 'u' ? 6 : 2;
        else if (byte < 0x80)
            index++;
        else if (byte < 0xE0)
            index += 2;
        else if (byte < 0xF0)
            index += 3;
        else {
            index += 4;
            units++; /* beyond the basic plane: a pair */
        }
    }
    return units;
}
