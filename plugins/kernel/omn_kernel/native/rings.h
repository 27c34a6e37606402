/* Rings of perf events: mapped, emptied of whole records. A call returns zero or a count, or a negated errno. */

#ifndef OMN_RINGS_H
#define OMN_RINGS_H

#include <stddef.h>
#include <stdint.h>

/* A ring as it is mapped: a page of the kernel's words and then `size` bytes, a power of two. */
struct omn_ring {
    void *base;
    uint64_t size;
};

/* Map an event's ring of so many bytes; let go of it. */
int omn_ring_map(int descriptor, uint64_t size, struct omn_ring *ring);
void omn_ring_unmap(struct omn_ring *ring);

/* How many bytes wait in all of them. */
uint64_t omn_rings_waiting(const struct omn_ring *rings, size_t count);

/* Copy what waits in each ring, ring by ring, until `room` is full, and give the places back to the kernel. Each record
   is whole. `lengths` gets the bytes of each ring. */
uint64_t omn_rings_drain(struct omn_ring *rings, size_t count, uint8_t *out, uint64_t room, uint64_t *lengths);

#endif
