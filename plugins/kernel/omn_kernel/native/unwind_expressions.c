/* Expressions: DWARF 5, section 2.5. */

#include "unwind_inside.h"

enum { MOST_OPERANDS = 64 };

struct operands {
    uint64_t values[MOST_OPERANDS];
    unsigned depth;
};

static int push(struct operands *operands, uint64_t value)
{
    if (operands->depth == MOST_OPERANDS)
        return 0;
    operands->values[operands->depth++] = value;
    return 1;
}

/* The operations on the two topmost; the left one is the deeper. Return 0 for what is none of them. */
static int combine(uint8_t operation, uint64_t left, uint64_t right, uint64_t *result)
{
    int64_t a = (int64_t)left, b = (int64_t)right;

    switch (operation) {
    case 0x1a: *result = left & right; return 1;
    case 0x1b: /* signed; the one quotient that overflows wraps */
        *result = b == 0 ? 0 : b == -1 ? (uint64_t)0 - left : (uint64_t)(a / b);
        return b != 0;
    case 0x1c: *result = left - right; return 1;
    case 0x1d: *result = right ? left % right : 0; return right != 0;
    case 0x1e: *result = left * right; return 1;
    case 0x21: *result = left | right; return 1;
    case 0x22: *result = left + right; return 1;
    case 0x24: *result = right < 64 ? left << right : 0; return 1;
    case 0x25: *result = right < 64 ? left >> right : 0; return 1;
    case 0x26: *result = (uint64_t)(a >> (right < 64 ? right : 63)); return 1;
    case 0x27: *result = left ^ right; return 1;
    case 0x29: *result = left == right; return 1;
    case 0x2a: *result = a >= b; return 1;
    case 0x2b: *result = a > b; return 1;
    case 0x2c: *result = a <= b; return 1;
    case 0x2d: *result = a < b; return 1;
    case 0x2e: *result = left != right; return 1;
    default: return 0;
    }
}

/* Operations that push what stands in the expression itself or in a register. Return -1 for what is none of them. */
static int push_operand(struct state *state, struct reader *reader, uint8_t operation, struct operands *operands)
{
    uint64_t value;

    if (operation >= 0x30 && operation <= 0x4f)
        return push(operands, operation - 0x30u);
    if ((operation >= 0x70 && operation <= 0x8f) || operation == 0x92) {
        uint64_t number = operation == 0x92 ? take_leb(reader, 0) : operation - 0x70u;
        uint64_t offset = take_leb(reader, 1);

        return get_register(state, number, &value) && push(operands, value + offset);
    }
    switch (operation) {
    case 0x03: return push(operands, take(reader, 8));
    case 0x08: return push(operands, take(reader, 1));
    case 0x09: return push(operands, (uint64_t)take_signed(reader, 1));
    case 0x0a: return push(operands, take(reader, 2));
    case 0x0b: return push(operands, (uint64_t)take_signed(reader, 2));
    case 0x0c: return push(operands, take(reader, 4));
    case 0x0d: return push(operands, (uint64_t)take_signed(reader, 4));
    case 0x0e:
    case 0x0f: return push(operands, take(reader, 8));
    case 0x10: return push(operands, take_leb(reader, 0));
    case 0x11: return push(operands, take_leb(reader, 1));
    default: return -1;
    }
}

/* Operations on what is on the stack already. */
static int change_operands(struct state *state, struct reader *reader, uint8_t operation, struct operands *operands)
{
    uint64_t *top, kept;
    unsigned place;

    if (operation == 0x96)
        return 1;
    if (operands->depth == 0)
        return 0;
    top = operands->values + operands->depth - 1;
    switch (operation) {
    case 0x06: return load(state, *top, 8, top);
    case 0x94:
        place = (unsigned)take(reader, 1);
        return (place == 1 || place == 2 || place == 4 || place == 8) && load(state, *top, place, top);
    case 0x12: return push(operands, *top);
    case 0x13: operands->depth--; return 1;
    case 0x19: *top = (int64_t)*top < 0 ? (uint64_t)0 - *top : *top; return 1;
    case 0x1f: *top = (uint64_t)0 - *top; return 1;
    case 0x20: *top = ~*top; return 1;
    case 0x23: *top += take_leb(reader, 0); return 1;
    case 0x14:
    case 0x15:
        place = operation == 0x14 ? 1 : (unsigned)take(reader, 1);
        return place < operands->depth && push(operands, top[-(ptrdiff_t)place]);
    default: break;
    }
    if (operands->depth < 2)
        return 0;
    if (operation == 0x16) {
        kept = top[0];
        top[0] = top[-1];
        top[-1] = kept;
        return 1;
    }
    if (operation == 0x17) {
        if (operands->depth < 3)
            return 0;
        kept = top[0];
        top[0] = top[-1];
        top[-1] = top[-2];
        top[-2] = kept;
        return 1;
    }
    operands->depth--;
    return combine(operation, top[-1], top[0], top - 1);
}

/* Jumps: DW_OP_skip and DW_OP_bra. */
static int jump(struct reader *reader, const uint8_t *begin, uint8_t operation, struct operands *operands)
{
    int64_t distance = take_signed(reader, 2);

    if (operation == 0x28) {
        if (operands->depth == 0)
            return 0;
        if (operands->values[--operands->depth] == 0)
            return !reader->failed;
    }
    if (reader->failed || distance < begin - reader->at || distance > reader->end - reader->at)
        return 0;
    reader->at += distance;
    return 1;
}

int omn_evaluate(struct state *state, struct reader expression, const uint64_t *first, uint64_t *value)
{
    const uint8_t *begin = expression.at;
    struct operands operands = {.depth = 0};

    if (first)
        push(&operands, *first);
    state->reason = OMN_BAD_TABLE;
    while (expression.at < expression.end) {
        uint8_t operation = (uint8_t)take(&expression, 1);
        int done;

        if (!spend(state))
            return 0;
        if (operation == 0x28 || operation == 0x2f) {
            done = jump(&expression, begin, operation, &operands);
        } else {
            done = push_operand(state, &expression, operation, &operands);
            if (done < 0)
                done = change_operands(state, &expression, operation, &operands);
        }
        if (!done || expression.failed)
            return 0; /* the reason stands, or a load set its own */
    }
    if (operands.depth == 0)
        return give_up(state, OMN_BAD_TABLE);
    *value = operands.values[operands.depth - 1];
    return 1;
}
