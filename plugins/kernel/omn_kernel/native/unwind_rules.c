/* Rows of rules and one frame to its caller: DWARF 5, section 6.4. */

#include "unwind_inside.h"

enum { MOST_SAVED_ROWS = 8 };

struct machine {
    struct row row;
    struct row initial;
    struct row saved[MOST_SAVED_ROWS];
    unsigned saved_count;
    uint64_t location;
};

static struct reader take_block(struct reader *reader)
{
    uint64_t size = take_leb(reader, 0);
    struct reader block = *reader;

    skip(reader, size);
    block.end = reader->failed ? block.at : reader->at;
    return block;
}

static void set_rule(struct machine *machine, uint64_t number, enum rule_kind kind, uint64_t value)
{
    if (number < OMN_REGISTERS) /* vector registers have rules too, and no part in a walk */
        machine->row.rules[number] = (struct rule){.kind = kind, .value = value};
}

static void set_expression(struct machine *machine, struct reader *reader, enum rule_kind kind)
{
    uint64_t number = take_leb(reader, 0);
    struct reader block = take_block(reader);

    if (number < OMN_REGISTERS)
        machine->row.rules[number] = (struct rule){.kind = kind, .expression = block};
}

/* Instructions that define the CFA. Return 0 for what is none of them. */
static int define_frame(struct machine *machine, struct reader *reader, uint8_t operation, int64_t factor)
{
    struct row *row = &machine->row;

    switch (operation) {
    case 0x0c:
    case 0x12:
        row->frame = (struct rule){.kind = IN_REGISTER, .value = take_leb(reader, 0)};
        row->frame_offset = operation == 0x0c ? (int64_t)take_leb(reader, 0)
                                              : (int64_t)(take_leb(reader, 1) * (uint64_t)factor);
        return 1;
    case 0x0d:
        row->frame = (struct rule){.kind = IN_REGISTER, .value = take_leb(reader, 0)};
        return 1;
    case 0x0e:
        row->frame_offset = (int64_t)take_leb(reader, 0);
        return 1;
    case 0x13:
        row->frame_offset = (int64_t)(take_leb(reader, 1) * (uint64_t)factor);
        return 1;
    case 0x0f:
        row->frame = (struct rule){.kind = IS_EXPRESSION, .expression = take_block(reader)};
        return 1;
    default:
        return 0;
    }
}

/* Instructions that say where a register was saved. Return 0 for what is none of them. */
static int define_register(struct machine *machine, struct reader *reader, uint8_t operation, int64_t factor)
{
    uint64_t number, scale = (uint64_t)factor;

    switch (operation) {
    case 0x05:
    case 0x11:
    case 0x14:
    case 0x15:
    case 0x2f:
        number = take_leb(reader, 0);
        if (operation == 0x2f)
            scale = (uint64_t)0 - scale;
        set_rule(machine, number, operation == 0x14 || operation == 0x15 ? IS_OFFSET : AT_OFFSET,
                 take_leb(reader, operation == 0x11 || operation == 0x15) * scale);
        return 1;
    case 0x06:
        number = take_leb(reader, 0);
        if (number < OMN_REGISTERS)
            machine->row.rules[number] = machine->initial.rules[number];
        return 1;
    case 0x07: set_rule(machine, take_leb(reader, 0), UNDEFINED, 0); return 1;
    case 0x08: set_rule(machine, take_leb(reader, 0), SAME, 0); return 1;
    case 0x09:
        number = take_leb(reader, 0);
        set_rule(machine, number, IN_REGISTER, take_leb(reader, 0));
        return 1;
    case 0x10: set_expression(machine, reader, AT_EXPRESSION); return 1;
    case 0x16: set_expression(machine, reader, IS_EXPRESSION); return 1;
    default: return 0;
    }
}

/* Instructions with an operand in their lowest six bits, and those that remember rows and advance. -1: none of them. */
static int advance(const struct omn_frame_table *table, struct machine *machine, struct reader *reader,
                   uint8_t operation, const struct common *common)
{
    uint8_t low = operation & 0x3f;

    switch (operation & 0xc0) {
    case 0x40: machine->location += low * common->code_factor; return 1;
    case 0x80:
        set_rule(machine, low, AT_OFFSET, take_leb(reader, 0) * (uint64_t)common->data_factor);
        return 1;
    case 0xc0:
        if (low < OMN_REGISTERS)
            machine->row.rules[low] = machine->initial.rules[low];
        return 1;
    default: break;
    }
    switch (operation) {
    case 0x00: return 1;
    case 0x01: machine->location = omn_take_pointer(reader, common->pointer_encoding, table); return 1;
    case 0x02: machine->location += take(reader, 1) * common->code_factor; return 1;
    case 0x03: machine->location += take(reader, 2) * common->code_factor; return 1;
    case 0x04: machine->location += take(reader, 4) * common->code_factor; return 1;
    case 0x0a:
        if (machine->saved_count == MOST_SAVED_ROWS)
            return 0;
        machine->saved[machine->saved_count++] = machine->row;
        return 1;
    case 0x0b:
        if (machine->saved_count == 0)
            return 0;
        machine->row = machine->saved[--machine->saved_count];
        return 1;
    case 0x2e: take_leb(reader, 0); return 1; /* DW_CFA_GNU_args_size */
    default: return -1;
    }
}

/* Run a program until it is past a place. */
static int run(struct state *state, const struct omn_frame_table *table, struct machine *machine,
               struct reader program, const struct common *common, uint64_t until)
{
    while (program.at < program.end) {
        uint8_t operation = (uint8_t)take(&program, 1);
        int done;

        if (!spend(state))
            return 0;
        done = advance(table, machine, &program, operation, common);
        if (done < 0)
            done = define_frame(machine, &program, operation, common->data_factor) ||
                   define_register(machine, &program, operation, common->data_factor);
        if (!done || program.failed)
            return give_up(state, OMN_BAD_TABLE);
        if (machine->location > until) /* what advances changes no rule: the row is the one before */
            return 1;
    }
    return 1;
}

/* Whether a frame is where the frame pointer says, plainly or, of a stack that was aligned anew, by an expression. */
static int is_by_frame_pointer(const struct rule *frame)
{
    enum { BREG_6 = 0x76 };

    if (frame->kind == IS_EXPRESSION)
        return frame->expression.at < frame->expression.end && *frame->expression.at == BREG_6;
    return frame->kind == IN_REGISTER && frame->value == FRAME_POINTER;
}

static int find_frame(struct state *state, const struct row *row, uint64_t *frame)
{
    state->is_framed = (uint8_t)is_by_frame_pointer(&row->frame);
    if (row->frame.kind == IS_EXPRESSION)
        return omn_evaluate(state, row->frame.expression, NULL, frame);
    if (row->frame.kind != IN_REGISTER)
        return give_up(state, OMN_BAD_TABLE);
    if (!get_register(state, row->frame.value, frame))
        return 0;
    *frame += (uint64_t)row->frame_offset;
    return 1;
}

/* Find a register's value in the caller. Return 0 where it cannot be known. */
static int restore(struct state *state, const struct rule *rule, uint64_t number, uint64_t frame, uint64_t *value)
{
    uint64_t place;

    switch (rule->kind) {
    case AT_OFFSET:
        place = frame + rule->value;
        /* In an epilogue the rule outlives the slot, which is popped and was not copied: the register has it back. */
        if (number != RETURN_ADDRESS && place - state->stack_at >= state->stack_size &&
            place < state->registers[STACK_POINTER])
            return get_register(state, number, value);
        return load(state, place, 8, value);
    case IS_OFFSET: *value = frame + rule->value; return 1;
    case IN_REGISTER: return get_register(state, rule->value, value);
    case AT_EXPRESSION: return omn_evaluate(state, rule->expression, &frame, &place) && load(state, place, 8, value);
    case IS_EXPRESSION: return omn_evaluate(state, rule->expression, &frame, value);
    case UNDEFINED: return 0;
    default: return get_register(state, number, value);
    }
}

int omn_find_row(struct state *state, const struct omn_frame_table *table, uint64_t place, const struct entry *entry,
                 struct row *row)
{
    struct machine machine; /* not cleared whole: the saved rows are most of it, and written before they are read */

    memset(&machine.row, 0, sizeof machine.row);
    memset(&machine.initial, 0, sizeof machine.initial); /* what a common record restores to is unspecified */
    machine.saved_count = 0;
    machine.location = entry->start;
    if (!run(state, table, &machine, entry->common.program, &entry->common, ~(uint64_t)0))
        return 0;
    machine.initial = machine.row;
    machine.location = entry->start;
    if (!run(state, table, &machine, entry->program, &entry->common, place))
        return 0;
    *row = machine.row;
    return 1;
}

int omn_step(struct state *state, const struct row *row, uint64_t return_register)
{
    uint64_t registers[OMN_REGISTERS], frame;
    uint32_t known = 0;
    const struct rule *back = &row->rules[return_register];

    if (!find_frame(state, row, &frame))
        return 0;
    if (back->kind == UNDEFINED)
        return give_up(state, OMN_ROOT);
    if (back->kind == UNSPECIFIED || back->kind == SAME)
        return give_up(state, OMN_BAD_TABLE);
    for (unsigned number = 0; number < OMN_REGISTERS; number++)
        if (restore(state, &row->rules[number], number, frame, &registers[number]))
            known |= 1u << number;
    /* Unless it says otherwise, as a signal's frame does, the caller's stack begins where this one's frame ends. */
    if (row->rules[STACK_POINTER].kind == UNSPECIFIED) {
        registers[STACK_POINTER] = frame;
        known |= 1u << STACK_POINTER;
    }
    if (!(known >> return_register & 1)) {
        restore(state, back, return_register, frame, &registers[RETURN_ADDRESS]);
        return 0; /* with the reason for which it cannot be read */
    }
    registers[RETURN_ADDRESS] = registers[return_register];
    memcpy(state->registers, registers, sizeof registers);
    state->known = known | 1u << RETURN_ADDRESS;
    return 1;
}
