/* The ring buffer that eBPF programs of every cpu write to, and the records of either transport laid side by side. */

#ifndef OMN_RINGBUF_H
#define OMN_RINGBUF_H

#include <stddef.h>
#include <stdint.h>

/* A ring buffer as it is mapped: the reader's page, and the kernel's with `size` bytes twice after it, so that what
   goes around the end is in one piece. */
struct omn_ringbuf {
    void *reader;
    void *writer;
    uint64_t size;
};

/* Map the ring buffer of so many bytes, a power of two; let go of it. Zero, or a negated errno. */
int omn_ringbuf_map(int descriptor, uint64_t size, struct omn_ringbuf *ring);
void omn_ringbuf_unmap(struct omn_ringbuf *ring);

/* How many bytes wait. */
uint64_t omn_ringbuf_waiting(const struct omn_ringbuf *ring);

/* Copy what waits, whole records with their headers, until one is not yet written or `room` is full, and give the
   places back to the kernel. Returns the bytes. */
uint64_t omn_ringbuf_drain(struct omn_ringbuf *ring, uint8_t *out, uint64_t room);

/* Lay what programs wrote side by side, record_size bytes each, and return how many; with rows NULL only count them.
   The bytes are of a ring buffer, or of rings of perf events, whose other records are passed over. */
uint64_t omn_ringbuf_gather(const uint8_t *data, uint64_t length, uint64_t record_size, uint8_t *rows);
uint64_t omn_raw_samples_gather(const uint8_t *data, uint64_t length, uint64_t record_size, uint8_t *rows);

#endif
