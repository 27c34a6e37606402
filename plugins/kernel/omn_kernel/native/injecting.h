/* The program's side of injected.h: what a library calls inside a process to write records. It allocates nothing, keeps
   no descriptor, leaves errno alone, and holds nothing that a fork or a signal could leave held. */

#ifndef OMN_INJECTING_H
#define OMN_INJECTING_H

#include "injected.h"

#define omn_likely(condition) __builtin_expect(!!(condition), 1)

struct omn_thread {
    /* Where the stack stood at the outermost call that is being recorded, 0 where none is. */
    uintptr_t outer;
    uint64_t generation;
    struct omn_injected_buffer *buffer;
    uint8_t *next;
    uint8_t *end;
    uint64_t base_ns;
    uint32_t until_timed;
};

extern __thread struct omn_thread omn_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern const uint32_t *omn_is_on __attribute__((visibility("hidden")));
extern const uint64_t *omn_generation __attribute__((visibility("hidden")));

/* Find the memory that an environment variable names, and take a place in it; nothing is recorded where there is none.
   Does nothing when it was found already. */
void omn_injecting_begin(const char *variable) __attribute__((visibility("hidden")));

/* Say of this process that calls go past the library; that its way out begins. */
void omn_injecting_say(uint32_t state) __attribute__((visibility("hidden")));

uint64_t omn_injecting_clock(void) __attribute__((visibility("hidden")));

/* The number of the stack that begins with `caller`, who called the function whose frame is at `frame`. */
uint32_t omn_injecting_stack(const uint64_t *frame, uint64_t caller) __attribute__((visibility("hidden")));

int omn_injecting_take(size_t size) __attribute__((visibility("hidden")));

/* Whether to record a call whose frame is at `here`. What is called inside a recorded call stands deeper on the stack,
   and is part of it; one that never returned is known by the next, which stands no deeper. */
static inline int omn_enters(uintptr_t here) {
    if (!omn_likely(__atomic_load_n(omn_is_on, __ATOMIC_RELAXED)) || here < omn_self.outer)
        return 0;
    omn_self.outer = here;
    return 1;
}

static inline void omn_leaves(void) { omn_self.outer = 0; }

/* The place of the next record, NULL where there is none: it is counted as lost. */
static inline void *omn_reserve(size_t size) {
    if (omn_likely(omn_self.generation == *omn_generation && omn_self.next + size <= omn_self.end && omn_self.next))
        return omn_self.next;
    return omn_injecting_take(size) ? omn_self.next : NULL;
}

static inline void omn_commit(size_t size) {
    struct omn_injected_buffer *buffer = omn_self.buffer;

    omn_self.next += size;
    __atomic_store_n(&buffer->written, buffer->written + (uint32_t)size, __ATOMIC_RELEASE);
}

/* Whether this thread's call is one of those that are timed. */
static inline int omn_is_timed(void) {
    if (omn_likely(omn_self.until_timed)) {
        omn_self.until_timed--;
        return 0;
    }
    omn_self.until_timed = OMN_TIMED_OF - 1;
    return 1;
}

static inline void omn_add_timed(uint64_t spent_ns) {
    struct omn_injected_buffer *buffer = omn_self.buffer;

    if (spent_ns > OMN_LONGEST_NS) {
        buffer->timed_long++;
        return;
    }
    buffer->timed_ns += spent_ns;
    buffer->timed++;
}

#endif
