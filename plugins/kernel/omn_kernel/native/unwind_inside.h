/* What the parts of the unwinder share: bytes that may end anywhere, entries, and one sample's state. */

#ifndef OMN_UNWIND_INSIDE_H
#define OMN_UNWIND_INSIDE_H

#include <stddef.h>
#include <string.h>

#include "unwind.h"

enum { FRAME_POINTER = 6, STACK_POINTER = 7, RETURN_ADDRESS = 16 };

struct reader {
    const uint8_t *at;
    const uint8_t *end;
    int failed;
};

static inline uint64_t take(struct reader *reader, unsigned size)
{
    uint64_t value = 0;

    if ((size_t)(reader->end - reader->at) < size) {
        reader->failed = 1;
        reader->at = reader->end;
        return 0;
    }
    memcpy(&value, reader->at, size); /* x86-64 is little-endian */
    reader->at += size;
    return value;
}

static inline int64_t take_signed(struct reader *reader, unsigned size)
{
    unsigned shift = 64 - 8 * size;

    return (int64_t)(take(reader, size) << shift) >> shift;
}

static inline uint64_t take_leb(struct reader *reader, int is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;

    do {
        byte = (uint8_t)take(reader, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80 && shift < 77 && !reader->failed);
    if (is_signed && byte & 0x40 && shift < 64)
        value |= ~(uint64_t)0 << shift;
    return value;
}

static inline void skip(struct reader *reader, uint64_t size)
{
    if ((uint64_t)(reader->end - reader->at) < size) {
        reader->failed = 1;
        reader->at = reader->end;
    } else {
        reader->at += size;
    }
}

struct common { /* a CIE */
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t return_register;
    uint8_t pointer_encoding;
    int is_signal;
    int has_augmentation;
    struct reader program;
};

struct entry { /* an FDE */
    uint64_t start;
    uint64_t end;
    struct common common;
    struct reader program;
};

enum rule_kind { UNSPECIFIED, UNDEFINED, SAME, AT_OFFSET, IS_OFFSET, IN_REGISTER, AT_EXPRESSION, IS_EXPRESSION };

struct rule {
    enum rule_kind kind;
    uint64_t value;
    struct reader expression;
};

struct row {
    struct rule frame; /* the CFA: IN_REGISTER with an offset in the expression's place, or IS_EXPRESSION */
    int64_t frame_offset;
    struct rule rules[OMN_REGISTERS];
};

struct state {
    uint64_t registers[OMN_REGISTERS];
    uint32_t known; /* a bit for each register whose value is known */
    const uint8_t *stack;
    uint64_t stack_at;
    uint64_t stack_size;
    unsigned operations; /* so many are left */
    uint8_t reason;
    uint8_t is_framed; /* the last step was by the frame pointer */
};

static inline int give_up(struct state *state, uint8_t reason)
{
    state->reason = reason;
    return 0;
}

static inline int load(struct state *state, uint64_t address, unsigned size, uint64_t *value)
{
    uint64_t offset = address - state->stack_at;

    if (state->stack_size < size || offset > state->stack_size - size)
        return give_up(state, OMN_STACK_END);
    *value = 0;
    memcpy(value, state->stack + offset, size);
    return 1;
}

static inline int get_register(struct state *state, uint64_t number, uint64_t *value)
{
    if (number >= OMN_REGISTERS || !(state->known >> number & 1))
        return give_up(state, OMN_BAD_TABLE);
    *value = state->registers[number];
    return 1;
}

static inline int spend(struct state *state)
{
    if (state->operations == 0)
        return give_up(state, OMN_BAD_TABLE);
    state->operations--;
    return 1;
}

/* A pointer as an augmentation says that they are written (LSB, section 10.5: DW_EH_PE_*). */
uint64_t omn_take_pointer(struct reader *reader, uint8_t encoding, const struct omn_frame_table *table);

/* Read the entry at an offset. Return 1 for one, 0 for a record that is none, which may be a common one. */
int omn_read_entry(const struct omn_frame_table *table, uint64_t offset, struct entry *entry);

/* Evaluate an expression, with a value on its stack first where one is given. Return 0 with the state's reason. */
int omn_evaluate(struct state *state, struct reader expression, const uint64_t *first, uint64_t *value);

/* Find the rules of a place in an entry's code. Return 0 with the reason for a program that cannot be followed. */
int omn_find_row(struct state *state, const struct omn_frame_table *table, uint64_t place, const struct entry *entry,
                 struct row *row);

/* Go to the caller by a row. Return 1 where there is one, 0 with the reason where the walk ends. */
int omn_step(struct state *state, const struct row *row, uint64_t return_register);

#endif
