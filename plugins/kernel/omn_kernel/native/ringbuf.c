#define _GNU_SOURCE
#include "ringbuf.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t writer_bytes(uint64_t size) { return page_size() + 2 * size; }

int omn_ringbuf_map(int descriptor, uint64_t size, struct omn_ringbuf *ring) {
    void *reader = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    void *writer;

    if (reader == MAP_FAILED)
        return -errno;
    writer = mmap(NULL, writer_bytes(size), PROT_READ, MAP_SHARED, descriptor, (off_t)page_size());
    if (writer == MAP_FAILED) {
        const int failed = -errno;
        munmap(reader, page_size());
        return failed;
    }
    ring->reader = reader;
    ring->writer = writer;
    ring->size = size;
    return 0;
}

void omn_ringbuf_unmap(struct omn_ringbuf *ring) {
    if (ring->reader == NULL)
        return;
    munmap(ring->reader, page_size());
    munmap(ring->writer, writer_bytes(ring->size));
    ring->reader = ring->writer = NULL;
}

static uint64_t read_written(const struct omn_ringbuf *ring) {
    return __atomic_load_n((const uint64_t *)ring->writer, __ATOMIC_ACQUIRE);
}

uint64_t omn_ringbuf_waiting(const struct omn_ringbuf *ring) { return read_written(ring) - *(uint64_t *)ring->reader; }

/* A record's bytes with its header, padded as the kernel pads them. */
static uint64_t padded(uint32_t header) {
    const uint32_t length = header & ~(uint32_t)(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

    return ((uint64_t)length + BPF_RINGBUF_HDR_SZ + 7) & ~(uint64_t)7;
}

/* The whole records at the beginning of `most` bytes. Most have the length of the one before, which is tried first: then
   the processor looks at the next without waiting for this one. */
static uint64_t whole_records(const uint8_t *first, uint64_t most) {
    uint32_t before = BPF_RINGBUF_BUSY_BIT;
    uint64_t step = UINT64_MAX, done = 0;

    while (done < most) {
        const uint32_t header = __atomic_load_n((const uint32_t *)(first + done), __ATOMIC_ACQUIRE);
        if (header != before) {
            if (header & BPF_RINGBUF_BUSY_BIT)
                break;
            before = header;
            step = padded(header);
        }
        if (step > most - done)
            break;
        done += step;
    }
    return done;
}

uint64_t omn_ringbuf_drain(struct omn_ringbuf *ring, uint8_t *out, uint64_t room) {
    uint64_t *read_place = ring->reader;
    const uint64_t begin = *read_place;
    const uint64_t waiting = read_written(ring) - begin;
    const uint8_t *first = (const uint8_t *)ring->writer + page_size() + (begin & (ring->size - 1));
    const uint64_t done = whole_records(first, waiting < room ? waiting : room);

    memcpy(out, first, done);
    /* The kernel writes over these places once it sees where the reader is. */
    __atomic_store_n(read_place, begin + done, __ATOMIC_RELEASE);
    return done;
}

uint64_t omn_ringbuf_gather(const uint8_t *data, uint64_t length, uint64_t record_size, uint8_t *rows) {
    uint64_t count = 0, place = 0;

    while (length - place >= BPF_RINGBUF_HDR_SZ) {
        uint32_t header;
        memcpy(&header, data + place, sizeof(header));
        if (padded(header) > length - place)
            break;
        if (header == record_size) {
            if (rows != NULL)
                memcpy(rows + count * record_size, data + place + BPF_RINGBUF_HDR_SZ, record_size);
            count++;
        }
        place += padded(header);
    }
    return count;
}

/* A raw sample: a header, how many bytes follow, and these, padded so that the whole is a multiple of eight. */
struct raw_sample {
    struct perf_event_header header;
    uint32_t size;
};

#define RAW_SAMPLE_BYTES 12u

uint64_t omn_raw_samples_gather(const uint8_t *data, uint64_t length, uint64_t record_size, uint8_t *rows) {
    const uint64_t wanted = ((RAW_SAMPLE_BYTES + record_size + 7) & ~(uint64_t)7) - RAW_SAMPLE_BYTES;
    uint64_t count = 0, place = 0;

    while (length - place >= RAW_SAMPLE_BYTES) {
        struct raw_sample sample;
        memcpy(&sample, data + place, RAW_SAMPLE_BYTES);
        if (sample.header.size < sizeof(sample.header) || sample.header.size > length - place)
            break;
        if (sample.header.type == PERF_RECORD_SAMPLE && sample.size == wanted) {
            if (rows != NULL)
                memcpy(rows + count * record_size, data + place + RAW_SAMPLE_BYTES, record_size);
            count++;
        }
        place += sample.header.size;
    }
    return count;
}
