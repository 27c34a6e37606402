#define _GNU_SOURCE
#include "injected.h"

#include <linux/futex.h>
#include <string.h>

void omn_injected_begin(struct omn_injected_memory *memory, uint32_t depth) {
    memory->bytes = sizeof(*memory);
    memory->depth = depth;
    memory->free_buffers = OMN_INJECTED_BUFFERS;
    __atomic_store_n(&memory->magic, OMN_INJECTED_MAGIC, __ATOMIC_RELEASE);
}

void omn_injected_turn(struct omn_injected_memory *memory, uint32_t is_on) {
    __atomic_store_n(&memory->is_on, is_on, __ATOMIC_RELEASE);
}

/* Whether no thread writes to a buffer any more: it is full, or its thread is gone without a word. What was written
   before is there once this is true. */
static int is_done(const struct omn_injected_buffer *buffer, uint32_t state) {
    /* The lock of the C library's mutexes is their first word. */
    const uint32_t *lock = (const uint32_t *)&buffer->held;

    return state == OMN_BUFFER_FULL || __atomic_load_n(lock, __ATOMIC_ACQUIRE) & FUTEX_OWNER_DIED;
}

uint64_t omn_injected_waiting(const struct omn_injected_memory *memory, const uint32_t *consumed) {
    uint64_t waiting = 0;

    for (uint32_t index = 0; index < OMN_INJECTED_BUFFERS; index++) {
        const struct omn_injected_buffer *buffer = &memory->buffers[index];
        if (__atomic_load_n(&buffer->state, __ATOMIC_ACQUIRE) != OMN_BUFFER_FREE)
            waiting += __atomic_load_n(&buffer->written, __ATOMIC_ACQUIRE) - consumed[index];
    }
    return waiting;
}

static void add_cost(const struct omn_injected_buffer *buffer, struct omn_injected_cost *cost) {
    cost->timed += buffer->timed;
    cost->timed_ns += buffer->timed_ns;
    cost->timed_long += buffer->timed_long;
}

void omn_injected_add_cost(const struct omn_injected_memory *memory, struct omn_injected_cost *cost) {
    for (uint32_t index = 0; index < OMN_INJECTED_BUFFERS; index++)
        if (__atomic_load_n(&memory->buffers[index].state, __ATOMIC_ACQUIRE) != OMN_BUFFER_FREE)
            add_cost(&memory->buffers[index], cost);
}

static void free_buffer(struct omn_injected_memory *memory, uint32_t index) {
    struct omn_injected_buffer *buffer = &memory->buffers[index];

    memset(&buffer->held, 0, sizeof(buffer->held));
    buffer->written = buffer->timed = buffer->timed_long = 0;
    buffer->timed_ns = 0;
    __atomic_store_n(&buffer->state, OMN_BUFFER_FREE, __ATOMIC_RELEASE);
    if (index < __atomic_load_n(&memory->first_free, __ATOMIC_RELAXED))
        __atomic_store_n(&memory->first_free, index, __ATOMIC_RELAXED);
    __atomic_fetch_add(&memory->free_buffers, 1, __ATOMIC_RELEASE);
}

uint32_t omn_injected_drain(struct omn_injected_memory *memory, uint32_t *consumed, uint8_t *out, uint64_t room,
                            struct omn_injected_part *parts, struct omn_injected_cost *cost) {
    uint32_t count = 0;

    for (uint32_t index = 0; index < OMN_INJECTED_BUFFERS; index++) {
        struct omn_injected_buffer *buffer = &memory->buffers[index];
        const uint32_t state = __atomic_load_n(&buffer->state, __ATOMIC_ACQUIRE);
        if (state == OMN_BUFFER_FREE)
            continue;
        const int done = is_done(buffer, state);
        const uint32_t written = __atomic_load_n(&buffer->written, __ATOMIC_ACQUIRE);
        const uint32_t bytes = written - consumed[index];
        if (bytes > room)
            break;
        if (bytes) {
            struct omn_injected_part *part = &parts[count++];
            part->process = buffer->process;
            part->thread = buffer->thread;
            part->bytes = bytes;
            part->base_ns = buffer->base_ns;
            memcpy(part->name, buffer->name, sizeof(part->name));
            memcpy(out, memory->records[index] + consumed[index], bytes);
            out += bytes;
            room -= bytes;
            consumed[index] = written;
        }
        if (done) {
            add_cost(buffer, cost);
            consumed[index] = 0;
            free_buffer(memory, index);
        }
    }
    return count;
}
