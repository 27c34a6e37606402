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

/* What is known of a place in code, of which many walks of one program have use. */
struct place {
    uint64_t address; /* 0 for none */
    uint64_t return_register;
    int is_signal;
    struct row row;
};

/* About as many as a program is mostly in, and few enough to stay in a cache of the processor's. */
enum { PLACE_BITS = 8 };

/* Find what is known of an address in the slot that is its own, or learn it there. 0 with the reason for what is not. */
static int find_place(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                      uint64_t address, struct place *place, struct state *state)
{
    const struct omn_frame_range *range;
    struct entry entry;

    if (address != 0 && place->address == address)
        return 1;
    place->address = 0;
    place->is_signal = 0;
    range = find_range(ranges, range_count, address);
    if (!range || range->table < 0 || !find_entry(&tables[range->table], address - range->bias, &entry))
        return give_up(state, range && is_entry(range, address) ? OMN_ROOT : OMN_NO_TABLE);
    place->is_signal = entry.common.is_signal;
    place->return_register = entry.common.return_register;
    if (!omn_find_row(state, &tables[range->table], address - range->bias, &entry, &place->row))
        return 0;
    place->address = address;
    return 1;
}

static uint32_t walk(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                     struct place *places, const uint64_t *registers, const uint8_t *stack, uint64_t stack_size,
                     uint64_t *addresses, uint8_t *exact, uint32_t capacity, uint8_t *reason)
{
    struct state state = {.known = (1u << OMN_REGISTERS) - 1, .stack = stack, .stack_size = stack_size,
                          .stack_at = registers[STACK_POINTER], .operations = MOST_OPERATIONS};
    uint8_t is_exact = 1;
    uint32_t count = 0;

    memcpy(state.registers, registers, sizeof state.registers);
    for (;;) {
        uint64_t address = state.registers[RETURN_ADDRESS], inside = address - !is_exact;
        struct place *place = &places[inside * 0x9e3779b97f4a7c15 >> (64 - PLACE_BITS)]; /* the golden ratio spreads */
        int is_known;

        if (count == capacity) {
            *reason = OMN_TOO_DEEP;
            return count;
        }
        addresses[count] = address;
        exact[count++] = is_exact;
        is_known = find_place(tables, ranges, range_count, inside, place, &state);
        is_exact = place->is_signal != 0;
        /* The kernel has a handler return to where its restorer begins: nothing before it called. */
        if (is_exact)
            exact[count - 1] = 1;
        if (!is_known || !omn_step(&state, &place->row, place->return_register)) {
            *reason = state.reason;
            return count;
        }
        if (state.registers[RETURN_ADDRESS] == 0) {
            *reason = OMN_ROOT;
            return count;
        }
    }
}

void omn_unwind_many(const struct omn_frame_table *tables, const struct omn_frame_range *ranges, uint64_t range_count,
                     uint64_t count, const uint64_t *registers, const uint8_t *stacks, const uint64_t *stack_starts,
                     const uint64_t *stack_ends, uint64_t *addresses, uint8_t *exact, uint32_t capacity,
                     uint32_t *lengths, uint8_t *reasons)
{
    struct place places[1 << PLACE_BITS];

    for (unsigned slot = 0; slot < 1 << PLACE_BITS; slot++)
        places[slot].address = 0;
    for (uint64_t sample = 0; sample < count; sample++)
        lengths[sample] = walk(tables, ranges, range_count, places, registers + sample * OMN_REGISTERS,
                               stacks + stack_starts[sample], stack_ends[sample] - stack_starts[sample],
                               addresses + sample * capacity, exact + sample * capacity, capacity, &reasons[sample]);
}

static uint8_t find_caller(const struct omn_frame_table *tables, const struct omn_frame_range *ranges,
                           uint64_t range_count, struct state *state)
{
    const uint64_t address = state->registers[RETURN_ADDRESS], pointer = state->registers[FRAME_POINTER];
    const struct omn_frame_range *range = find_range(ranges, range_count, address);
    struct entry entry;
    struct row row;

    if (!range || range->table < 0 || !find_entry(&tables[range->table], address - range->bias, &entry) ||
        !omn_find_row(state, &tables[range->table], address - range->bias, &entry, &row) ||
        !omn_step(state, &row, entry.common.return_register) || entry.common.is_signal ||
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
