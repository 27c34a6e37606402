#include "records.h"

#include <linux/perf_event.h>
#include <string.h>

/* A sample as OMN_SAMPLE_TYPE lays it out, without its other parts. */
struct first_part {
    struct perf_event_header header;
    uint64_t ip;
    int32_t pid;
    int32_t tid;
    uint64_t time;
};

struct cpu_part {
    uint32_t cpu;
    uint32_t reserved;
};

struct chain {
    const uint8_t *addresses;
    uint64_t count;
};

static int read_header(const uint8_t *data, uint64_t left, struct perf_event_header *header) {
    if (left < sizeof(*header))
        return 0;
    memcpy(header, data, sizeof(*header));
    return header->size >= sizeof(*header) && header->size <= left;
}

static size_t fixed_size(uint32_t parts) {
    size_t words = 0;

    for (parts &= OMN_ACCESSES | OMN_STREAMS | OMN_PERIODS; parts; parts &= parts - 1)
        words++;
    return sizeof(struct first_part) + sizeof(struct cpu_part) + words * sizeof(uint64_t);
}

/* Nothing where the record says more addresses than it has room for, as no kernel's does. */
static struct chain find_chain(const uint8_t *record, uint16_t size, uint32_t parts) {
    struct chain chain = {NULL, 0};
    const size_t begin = fixed_size(parts);
    uint64_t count;

    if (!(parts & OMN_CHAINS) || size < begin + sizeof(count))
        return chain;
    memcpy(&count, record + begin, sizeof(count));
    if (count > (size - begin - sizeof(count)) / sizeof(uint64_t))
        return chain;
    chain.addresses = record + begin + sizeof(count);
    chain.count = count;
    return chain;
}

/* What was copied of the program: its registers in the kernel's order, and the bytes of its stack. */
struct copied {
    const uint8_t *registers;
    const uint8_t *stack;
    uint64_t stack_size;
};

/* Where each of the kernel's registers stands in DWARF's numbers: <asm/perf_regs.h>, and the x86-64 ABI's figure 3.36. */
static const uint8_t PLACES[OMN_REGISTER_COUNT] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15};

static uint64_t read_word(const uint8_t *record, uint64_t *at, uint16_t size, int *is_whole) {
    uint64_t word = 0;

    *is_whole = *is_whole && size - *at >= sizeof(word);
    if (*is_whole) {
        memcpy(&word, record + *at, sizeof(word));
        *at += sizeof(word);
    }
    return word;
}

/* Whether so many bytes are left in a record; steps over them. */
static int step_over(uint64_t *at, uint16_t size, uint64_t bytes) {
    if (bytes > size - *at)
        return 0;
    *at += bytes;
    return 1;
}

/* Nothing of what a record has no room for, as no kernel's does. */
static struct copied find_copied(const uint8_t *record, uint16_t size, uint32_t parts) {
    struct copied copied = {NULL, NULL, 0};
    uint64_t at = fixed_size(parts), abi, room, filled;
    int is_whole = 1;

    if (parts & OMN_CHAINS)
        at += sizeof(uint64_t) * (1 + find_chain(record, size, parts).count);
    if (!(parts & OMN_USER_REGISTERS) || at > size)
        return copied;
    abi = read_word(record, &at, size, &is_whole);
    if (abi != PERF_SAMPLE_REGS_ABI_NONE) {
        if (abi == PERF_SAMPLE_REGS_ABI_64 && size - at >= OMN_REGISTER_COUNT * sizeof(uint64_t))
            copied.registers = record + at;
        is_whole = is_whole && step_over(&at, size, OMN_REGISTER_COUNT * sizeof(uint64_t));
    }
    if (!(parts & OMN_USER_STACKS))
        return copied;
    room = read_word(record, &at, size, &is_whole);
    if (!is_whole || room == 0 || copied.registers == NULL)
        return copied;
    copied.stack = record + at;
    if (!step_over(&at, size, room))
        return copied;
    filled = read_word(record, &at, size, &is_whole);
    if (is_whole && filled <= room)
        copied.stack_size = filled;
    return copied;
}

static int is_sample(const struct perf_event_header *header, uint32_t parts) {
    return header->type == PERF_RECORD_SAMPLE && header->size >= fixed_size(parts);
}

void omn_records_count(const uint8_t *data, uint64_t length, uint32_t parts, struct omn_record_counts *counts) {
    struct perf_event_header header;

    memset(counts, 0, sizeof(*counts));
    while (read_header(data + counts->bytes, length - counts->bytes, &header)) {
        if (is_sample(&header, parts)) {
            counts->samples++;
            counts->addresses += find_chain(data + counts->bytes, header.size, parts).count;
            counts->stack_bytes += find_copied(data + counts->bytes, header.size, parts).stack_size;
        } else {
            counts->others++;
        }
        counts->bytes += header.size;
    }
}

/* Copy a chain without the marks between its parts, and count the kernel's addresses, which come first. */
static uint64_t copy_chain(struct chain chain, uint64_t *out, uint32_t *kernel_frames) {
    uint64_t kept = 0;
    int is_kernel = 0;

    *kernel_frames = 0;
    for (uint64_t index = 0; index < chain.count; index++) {
        uint64_t address;
        memcpy(&address, chain.addresses + index * sizeof(address), sizeof(address));
        if (address >= (uint64_t)PERF_CONTEXT_MAX) {
            is_kernel = address == (uint64_t)PERF_CONTEXT_KERNEL;
            continue;
        }
        out[kept++] = address;
        *kernel_frames += is_kernel;
    }
    return kept;
}

/* Copy what stands before a sample's chain into its row. */
static void copy_fixed(const uint8_t *record, uint32_t parts, struct omn_samples *samples, uint64_t row) {
    struct first_part first;
    struct cpu_part cpu;

    memcpy(&first, record, sizeof(first));
    samples->ip[row] = first.ip;
    samples->pid[row] = first.pid;
    samples->tid[row] = first.tid;
    samples->time[row] = first.time;
    record += sizeof(first);
    if (parts & OMN_ACCESSES) {
        memcpy(samples->accessed + row, record, sizeof(*samples->accessed));
        record += sizeof(*samples->accessed);
    }
    if (parts & OMN_STREAMS) {
        memcpy(samples->stream + row, record, sizeof(*samples->stream));
        record += sizeof(*samples->stream);
    }
    memcpy(&cpu, record, sizeof(cpu));
    samples->cpu[row] = cpu.cpu;
    if (parts & OMN_PERIODS)
        memcpy(samples->period + row, record + sizeof(cpu), sizeof(*samples->period));
}

static void copy_registers(const uint8_t *registers, uint64_t *row) {
    for (unsigned index = 0; index < OMN_REGISTER_COUNT; index++) {
        uint64_t value = 0;
        if (registers != NULL)
            memcpy(&value, registers + index * sizeof(value), sizeof(value));
        row[PLACES[index]] = value;
    }
}

/* Copy what was copied of the program after `held` bytes of stacks; return how many bytes there are then. */
static uint64_t copy_copied(struct copied copied, uint32_t parts, struct omn_samples *samples, uint64_t row,
                            uint64_t held) {
    if (parts & OMN_USER_REGISTERS)
        copy_registers(copied.registers, samples->registers + row * OMN_REGISTER_COUNT);
    if (!(parts & OMN_USER_STACKS))
        return held;
    if (copied.stack_size > 0)
        memcpy(samples->stacks + held, copied.stack, copied.stack_size);
    samples->stack_ends[row] = held + copied.stack_size;
    return held + copied.stack_size;
}

void omn_records_decode(const uint8_t *data, uint64_t length, uint32_t parts, struct omn_samples *samples,
                        uint64_t *others) {
    struct perf_event_header header;
    uint64_t offset = 0, other = 0, row = 0, used = 0, held = 0;

    while (read_header(data + offset, length - offset, &header)) {
        if (is_sample(&header, parts)) {
            copy_fixed(data + offset, parts, samples, row);
            used += copy_chain(find_chain(data + offset, header.size, parts), samples->addresses + used,
                               samples->kernel_frames + row);
            held = copy_copied(find_copied(data + offset, header.size, parts), parts, samples, row, held);
            samples->chain_ends[row++] = used;
        } else {
            others[other++] = offset;
        }
        offset += header.size;
    }
}
