#include "heap.h"
#include "injected.h"

#include <string.h>

#define WORD sizeof(uint64_t)
#define BITS(word, from, count) ((word) >> (from) & ((1ULL << (count)) - 1))

static uint64_t read_word(const uint8_t *content, uint64_t index) {
    uint64_t word;

    memcpy(&word, content + index * WORD, WORD);
    return word;
}

/* How many bytes the record is that begins some bytes, 0 where they hold no whole one: a program may write anything. */
static uint64_t find_size(const uint8_t *content, uint64_t bytes) {
    if (bytes < WORD)
        return 0;
    const uint64_t op = BITS(read_word(content, 0), 0, OMN_HEAP_OP_BITS);
    const uint64_t words = op == OMN_HEAP_FREE      ? OMN_HEAP_FREE_WORDS
                           : op == OMN_HEAP_REALLOC ? OMN_HEAP_MOVED_WORDS
                                                    : OMN_HEAP_MADE_WORDS;

    return words * WORD <= bytes ? words * WORD : 0;
}

uint64_t omn_heap_count(const uint8_t *content, uint64_t bytes) {
    uint64_t count = 0, at = 0, size;

    for (; (size = find_size(content + at, bytes - at)); at += size)
        count++;
    return count;
}

uint64_t omn_heap_measure(const uint8_t *content, uint64_t bytes, uint64_t count) {
    uint64_t at = 0, size;

    for (; count && (size = find_size(content + at, bytes - at)); at += size)
        count--;
    return at;
}

static void read_record(const uint8_t *content, uint64_t base_ns, struct omn_heap_record *record) {
    const uint64_t first = read_word(content, 0);
    const uint64_t stack = BITS(first, OMN_HEAP_OP_BITS, OMN_HEAP_STACK_BITS);

    record->op = (uint32_t)BITS(first, 0, OMN_HEAP_OP_BITS);
    record->stack = stack == OMN_HEAP_NO_STACK ? OMN_NO_STACK : (uint32_t)stack;
    record->ns = base_ns + BITS(first, OMN_HEAP_OP_BITS + OMN_HEAP_STACK_BITS, OMN_HEAP_NS_BITS);
    record->began_ns = record->ns;
    record->addr = record->bytes = record->given = 0;
    if (record->op == OMN_HEAP_FREE) {
        record->given = read_word(content, 1);
        return;
    }
    record->addr = read_word(content, 1);
    record->bytes = read_word(content, 2);
    if (record->op == OMN_HEAP_REALLOC) {
        record->given = read_word(content, 3);
        record->began_ns = read_word(content, 4);
    }
}

uint64_t omn_heap_read(const uint8_t *content, const struct omn_injected_part *parts, uint64_t count,
                       struct omn_heap_record *records, uint32_t *whose) {
    uint64_t read = 0;

    for (uint64_t index = 0; index < count; index++) {
        const uint8_t *end = content + parts[index].bytes;
        uint64_t size;
        for (; (size = find_size(content, (uint64_t)(end - content))); content += size) {
            whose[read] = (uint32_t)index;
            read_record(content, parts[index].base_ns, &records[read++]);
        }
        content = end;
    }
    return read;
}
