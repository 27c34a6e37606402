#include "unwind_inside.h"

/* No walk that is honest comes near it: a hostile table costs no more. */
enum { MOST_OPERATIONS = 1 << 18 };

/* What an entry's code is no longer than: it calls, and does not return. */
enum { ENTRY_BYTES = 64 };

static const struct omn_frame_range *find_range(const struct omn_frame_range *ranges, uint64_t count, uint64_t address)
{
    uint64_t low = 0, high = count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < ranges[low - 1].end ? &ranges[low - 1] : NULL;
}

static int find_entry(const struct omn_frame_table *table, uint64_t address, struct entry *entry)
{
    uint64_t low = 0, high = table->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (table->starts[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < table->ends[low - 1] && omn_read_entry(table, table->entries[low - 1], entry);
}

/* Whether code is where the kernel begins to run an object. The loader's own has no unwind information there. */
static int is_entry(const struct omn_frame_range *range, uint64_t place)
{
    return range->entry != 0 && place - range->entry < ENTRY_BYTES;
}

uint32_t omn_unwind(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                    const uint64_t *registers, const uint8_t *stack, uint64_t stack_size, uint64_t *addresses,
                    uint8_t *exact, uint32_t capacity, uint8_t *reason)
{
    struct state state = {.known = (1u << OMN_REGISTERS) - 1, .stack = stack, .stack_size = stack_size,
                          .stack_at = registers[STACK_POINTER], .operations = MOST_OPERATIONS};
    uint8_t is_exact = 1;
    uint32_t count = 0;

    memcpy(state.registers, registers, sizeof state.registers);
    for (;;) {
        uint64_t address = state.registers[RETURN_ADDRESS];
        uint64_t place = address - !is_exact;
        const struct omn_frame_range *range;
        struct entry entry;

        if (count == capacity) {
            *reason = OMN_TOO_DEEP;
            return count;
        }
        addresses[count] = address;
        exact[count++] = is_exact;
        range = find_range(ranges, range_count, place);
        if (!range || range->table < 0 || !find_entry(&tables[range->table], place - range->bias, &entry)) {
            *reason = range && is_entry(range, place) ? OMN_ROOT : OMN_NO_TABLE;
            return count;
        }
        /* The kernel has a handler return to where its restorer begins: nothing before it called. */
        if (entry.common.is_signal)
            exact[count - 1] = 1;
        if (!omn_step(&state, &tables[range->table], place - range->bias, &entry)) {
            *reason = state.reason;
            return count;
        }
        if (state.registers[RETURN_ADDRESS] == 0) {
            *reason = OMN_ROOT;
            return count;
        }
        is_exact = entry.common.is_signal != 0;
    }
}

void omn_unwind_many(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                     uint64_t count, const uint64_t *registers, const uint8_t *stacks, const uint64_t *stack_starts,
                     const uint64_t *stack_ends, uint64_t *addresses, uint8_t *exact, uint32_t capacity,
                     uint32_t *lengths, uint8_t *reasons)
{
    for (uint64_t sample = 0; sample < count; sample++)
        lengths[sample] = omn_unwind(tables, ranges, range_count, registers + sample * OMN_REGISTERS,
                                     stacks + stack_starts[sample], stack_ends[sample] - stack_starts[sample],
                                     addresses + sample * capacity, exact + sample * capacity, capacity,
                                     &reasons[sample]);
}

static uint8_t find_caller(const struct omn_frame_table *tables, const struct omn_frame_range *ranges,
                           uint64_t range_count, struct state *state)
{
    const uint64_t address = state->registers[RETURN_ADDRESS], pointer = state->registers[FRAME_POINTER];
    const struct omn_frame_range *range = find_range(ranges, range_count, address);
    struct entry entry;

    if (!range || range->table < 0 || !find_entry(&tables[range->table], address - range->bias, &entry) ||
        !omn_step(state, &tables[range->table], address - range->bias, &entry) || entry.common.is_signal ||
        !find_range(ranges, range_count, state->registers[RETURN_ADDRESS] - 1))
        return OMN_UNKNOWN;
    if (state->is_framed)
        return OMN_FRAMED;
    if (!(state->known >> FRAME_POINTER & 1))
        return OMN_CLOBBERED;
    return state->registers[FRAME_POINTER] == pointer ? OMN_FRAMELESS : OMN_CLOBBERED;
}

void omn_find_callers(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                      uint64_t count, const uint64_t *registers, const uint8_t *stacks, const uint64_t *stack_starts,
                      const uint64_t *stack_ends, uint64_t *callers, uint8_t *kinds)
{
    for (uint64_t sample = 0; sample < count; sample++) {
        struct state state = {.known = (1u << OMN_REGISTERS) - 1, .stack = stacks + stack_starts[sample],
                              .stack_size = stack_ends[sample] - stack_starts[sample], .operations = MOST_OPERATIONS};

        memcpy(state.registers, registers + sample * OMN_REGISTERS, sizeof state.registers);
        state.stack_at = state.registers[STACK_POINTER];
        kinds[sample] = find_caller(tables, ranges, range_count, &state);
        callers[sample] = kinds[sample] == OMN_UNKNOWN ? 0 : state.registers[RETURN_ADDRESS];
    }
}
