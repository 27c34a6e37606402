#define _GNU_SOURCE
#include "rings.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

int omn_ring_map(int descriptor, uint64_t size, struct omn_ring *ring) {
    void *base = mmap(NULL, page_size() + size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);

    if (base == MAP_FAILED)
        return -errno;
    ring->base = base;
    ring->size = size;
    return 0;
}

void omn_ring_unmap(struct omn_ring *ring) {
    if (ring->base != NULL)
        munmap(ring->base, page_size() + ring->size);
    ring->base = NULL;
}

static struct perf_event_mmap_page *words_of(const struct omn_ring *ring) { return ring->base; }

static const uint8_t *data_of(const struct omn_ring *ring) { return (const uint8_t *)ring->base + page_size(); }

uint64_t omn_rings_waiting(const struct omn_ring *rings, size_t count) {
    uint64_t waiting = 0;

    for (size_t index = 0; index < count; index++) {
        struct perf_event_mmap_page *words = words_of(&rings[index]);
        waiting += __atomic_load_n(&words->data_head, __ATOMIC_ACQUIRE) - words->data_tail;
    }
    return waiting;
}

static void copy_out(const struct omn_ring *ring, uint64_t from, uint64_t length, uint8_t *out) {
    const uint64_t place = from & (ring->size - 1);
    const uint64_t first = length < ring->size - place ? length : ring->size - place;

    memcpy(out, data_of(ring) + place, first);
    memcpy(out + first, data_of(ring), length - first);
}

/* The whole records among `length` bytes that stand at `out`: a record that is cut is left for the next call. */
static uint64_t whole_records(const uint8_t *out, uint64_t length) {
    uint64_t done = 0;

    while (length - done >= sizeof(struct perf_event_header)) {
        struct perf_event_header header;
        memcpy(&header, out + done, sizeof(header));
        if (header.size < sizeof(header) || header.size > length - done)
            break;
        done += header.size;
    }
    return done;
}

uint64_t omn_rings_drain(struct omn_ring *rings, size_t count, uint8_t *out, uint64_t room, uint64_t *lengths) {
    uint64_t used = 0;

    for (size_t index = 0; index < count; index++) {
        struct perf_event_mmap_page *words = words_of(&rings[index]);
        const uint64_t tail = words->data_tail;
        uint64_t length = __atomic_load_n(&words->data_head, __ATOMIC_ACQUIRE) - tail;
        const int is_cut = length > room - used;

        if (is_cut)
            length = room - used;
        copy_out(&rings[index], tail, length, out + used);
        if (is_cut)
            length = whole_records(out + used, length);
        /* The kernel writes over these places once it sees the tail. */
        __atomic_store_n(&words->data_tail, tail + length, __ATOMIC_RELEASE);
        lengths[index] = length;
        used += length;
    }
    return used;
}
