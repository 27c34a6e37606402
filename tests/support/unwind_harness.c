/* Feed the unwinder damaged tables and stacks of anything, for a build with sanitizers to watch: FILE ADDRESS ROUNDS. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind.h"

enum { TABLE_BYTES = 24000, WALKS = 20, DEEPEST = 64, STACK_AT = 0x7000, MOST_STACK = 400 };

struct entry {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
};

static int by_start(const void *left, const void *right)
{
    uint64_t a = ((const struct entry *)left)->start, b = ((const struct entry *)right)->start;

    return (a > b) - (a < b);
}

/* Every buffer is as large as what it holds, so that a byte too far is seen. */
static void *copy(const void *from, size_t size)
{
    void *to = malloc(size);

    if (size)
        memcpy(to, from, size);
    return to;
}

static void sort(uint64_t *starts, uint64_t *ends, uint64_t *offsets, uint64_t count)
{
    struct entry *entries = malloc(count * sizeof *entries + 1);

    for (uint64_t at = 0; at < count; at++)
        entries[at] = (struct entry){starts[at], ends[at], offsets[at]};
    qsort(entries, count, sizeof *entries, by_start);
    for (uint64_t at = 0; at < count; at++) {
        starts[at] = entries[at].start;
        ends[at] = entries[at].end;
        offsets[at] = entries[at].offset;
    }
    free(entries);
}

static void walk(const struct omn_frame_table *table, unsigned long *ended)
{
    struct omn_frame_range range = {0, ~(uint64_t)0, 0, 0};
    uint64_t registers[2 * OMN_REGISTERS], words[MOST_STACK / 8], addresses[2 * DEEPEST];
    size_t size = (size_t)random() % (MOST_STACK + 1);
    const uint64_t starts[2] = {0, 0}, ends[2] = {size, size};
    uint8_t exact[2 * DEEPEST], reasons[2] = {255, 255};
    uint8_t *stack;
    uint32_t lengths[2];

    for (size_t at = 0; at < MOST_STACK / 8; at++)
        words[at] = random() % 2 ? table->starts[(uint64_t)random() % table->count] + (uint64_t)random() % 40
                                 : (uint64_t)STACK_AT + (uint64_t)random() % MOST_STACK;
    for (unsigned at = 0; at < OMN_REGISTERS; at++)
        registers[at] = (uint64_t)STACK_AT + (uint64_t)random() % MOST_STACK;
    registers[7] = random() % 10 ? (uint64_t)STACK_AT : ~(uint64_t)0 - (uint64_t)random() % 500;
    registers[16] = table->starts[(uint64_t)random() % table->count] + (uint64_t)random() % 60;
    stack = copy(words, size);
    /* Twice, and the second time by what the first one learnt of each place. */
    memcpy(registers + OMN_REGISTERS, registers, sizeof registers / 2);
    omn_unwind_many(table, &range, 1, 2, registers, stack, starts, ends, addresses, exact, DEEPEST, lengths, reasons);
    free(stack);
    if (lengths[0] == 0 || lengths[0] > DEEPEST || reasons[0] > OMN_TOO_DEEP || lengths[1] < lengths[0] ||
        lengths[1] > DEEPEST || memcmp(addresses, addresses + DEEPEST, lengths[0] * sizeof addresses[0]) != 0 ||
        memcmp(exact, exact + DEEPEST, lengths[0]) != 0)
        abort();
    /* Where all that a walk may cost was spent on learning, the second comes further. */
    if (reasons[0] != OMN_BAD_TABLE && (lengths[1] != lengths[0] || reasons[1] != reasons[0]))
        abort();
    ended[reasons[0]]++;
}

int main(int argc, char **argv)
{
    static uint8_t whole[TABLE_BYTES];
    unsigned long ended[OMN_TOO_DEEP + 1] = {0};
    FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
    size_t held = file ? fread(whole, 1, sizeof whole, file) : 0;

    if (!held)
        return 2;
    fclose(file);
    for (int round = atoi(argv[3]); round > 0; round--) {
        size_t size = random() % 4 ? held : (size_t)random() % held + 1;
        struct omn_frame_table table = {.content = copy(whole, size), .size = size,
                                        .address = strtoull(argv[2], NULL, 16),
                                        .debug_at = random() % 4 ? size : (size_t)random() % size};
        uint8_t *content = (uint8_t *)table.content;
        uint64_t *columns[3];

        for (long damage = random() % 80; damage > 0; damage--)
            content[(size_t)random() % size] = (uint8_t)(random() % 3 ? random() : random() % 2 ? 0xff : 0x80);
        table.count = omn_list_frames(content, size, table.address, table.debug_at, NULL, NULL, NULL, 0);
        for (int column = 0; column < 3; column++)
            columns[column] = malloc(table.count * 8 + 1);
        omn_list_frames(content, size, table.address, table.debug_at, columns[0], columns[1], columns[2], table.count);
        sort(columns[0], columns[1], columns[2], table.count);
        table.starts = columns[0];
        table.ends = columns[1];
        table.entries = columns[2];
        for (int number = 0; number < WALKS && table.count; number++)
            walk(&table, ended);
        for (int column = 0; column < 3; column++)
            free(columns[column]);
        free(content);
    }
    for (unsigned reason = 0; reason <= OMN_TOO_DEEP; reason++)
        printf("%lu ", ended[reason]);
    return 0;
}
