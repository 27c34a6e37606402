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

/* Whether it was to make a block: free is not, nor realloc of one that was asked for nothing, which gives back. */
static int is_call(const struct omn_heap_record *record) {
    if (record->op == OMN_HEAP_FREE)
        return 0;
    return !(record->op == OMN_HEAP_REALLOC && record->given && !record->bytes && !record->addr);
}

static int is_of_same(const struct omn_injected_part *one, const struct omn_injected_part *other) {
    return one->process == other->process && one->thread == other->thread &&
           !memcmp(one->name, other->name, sizeof(one->name));
}

static int is_alike(const struct omn_heap_record *one, const struct omn_heap_record *other) {
    return one->bytes == other->bytes && one->op == other->op && one->stack == other->stack &&
           !one->addr == !other->addr;
}

static uint64_t hash_call(const struct omn_heap_record *record, const struct omn_injected_part *part) {
    const uint64_t words[] = {record->bytes, (uint64_t)record->stack << 32 | record->op << 1 | !record->addr,
                              (uint64_t)part->process << 32 | part->thread};
    uint64_t hash = 0;

    for (unsigned index = 0; index < sizeof(words) / sizeof(*words); index++) {
        hash = (hash ^ words[index]) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 32;
    }
    return hash;
}

uint64_t omn_heap_add_up(const uint8_t *content, const struct omn_injected_part *parts, uint64_t count,
                         struct omn_heap_record *rows, uint32_t *whose, int64_t *weights, uint32_t *places,
                         uint64_t last, uint64_t *frees) {
    uint64_t made = 0;

    *frees = 0;
    for (uint64_t index = 0; index < count; index++) {
        const uint8_t *end = content + parts[index].bytes;
        uint64_t size;
        for (; (size = find_size(content, (uint64_t)(end - content))); content += size) {
            struct omn_heap_record record;
            read_record(content, parts[index].base_ns, &record);
            *frees += record.op == OMN_HEAP_FREE;
            if (!is_call(&record))
                continue;
            uint64_t place = hash_call(&record, &parts[index]) & last;
            while (places[place] && !(is_alike(&rows[places[place] - 1], &record) &&
                                      is_of_same(&parts[whose[places[place] - 1]], &parts[index])))
                place = (place + 1) & last;
            if (!places[place]) {
                rows[made] = record;
                whose[made] = (uint32_t)index;
                weights[made] = 0;
                places[place] = (uint32_t)++made;
            }
            weights[places[place] - 1]++;
        }
        content = end;
    }
    return made;
}
