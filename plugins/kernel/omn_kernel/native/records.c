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

void omn_records_decode(const uint8_t *data, uint64_t length, uint32_t parts, struct omn_samples *samples,
                        uint64_t *others) {
    struct perf_event_header header;
    uint64_t offset = 0, other = 0, row = 0, used = 0;

    while (read_header(data + offset, length - offset, &header)) {
        if (is_sample(&header, parts)) {
            copy_fixed(data + offset, parts, samples, row);
            used += copy_chain(find_chain(data + offset, header.size, parts), samples->addresses + used,
                               samples->kernel_frames + row);
            samples->chain_ends[row++] = used;
        } else {
            others[other++] = offset;
        }
        offset += header.size;
    }
}
