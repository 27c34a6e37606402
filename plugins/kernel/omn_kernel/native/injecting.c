#define _GNU_SOURCE
#include "injecting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_PROBES 64
/* A thread's stack ends at its control block, and the first thread's where the loader says. Further below is another
   stack, a coroutine's, of which nobody here knows the end. */
#define THREAD_STACK_BYTES (16UL << 20)
#define FIRST_STACK_BYTES (128UL << 20)
#define NO_PLACE UINT64_MAX
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

extern void *__libc_stack_end __attribute__((weak));

static const uint32_t is_off;
static const uint64_t no_generation;
static struct omn_injected_memory *memory;
/* In a page that is zero again in a child, however it was forked: the place of this process, and one. */
static uint64_t *generation;

__thread struct omn_thread omn_self __attribute__((tls_model("initial-exec")));
const uint32_t *omn_is_on = &is_off;
const uint64_t *omn_generation = &no_generation;

uint64_t omn_injecting_clock(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct omn_injected_memory *map_memory(const char *path) {
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = MAP_FAILED;
    struct stat found;

    if (descriptor < 0)
        return NULL;
    if (fstat(descriptor, &found) == 0 && (uint64_t)found.st_size == sizeof(*memory))
        mapped = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    close(descriptor);
    if (mapped == MAP_FAILED)
        return NULL;
    struct omn_injected_memory *made = mapped;
    if (made->magic == OMN_INJECTED_MAGIC && made->bytes == sizeof(*made))
        return made;
    munmap(mapped, sizeof(*memory));
    return NULL;
}

static void begin_process(void) {
    const uint32_t place = __atomic_fetch_add(&memory->process_count, 1, __ATOMIC_RELAXED);
    struct stat namespace;

    if (place >= OMN_INJECTED_PROCESSES) {
        __atomic_fetch_add(&memory->lost_processes, 1, __ATOMIC_RELAXED);
        *generation = NO_PLACE;
        return;
    }
    struct omn_injected_process *process = &memory->processes[place];
    process->pid = (uint32_t)getpid();
    process->parent = (uint32_t)getppid();
    process->pid_namespace = stat("/proc/self/ns/pid", &namespace) == 0 ? (uint32_t)namespace.st_ino : 0;
    process->began_ns = omn_injecting_clock();
    __atomic_store_n(&process->state, OMN_PROCESS_SEEN, __ATOMIC_RELEASE);
    *generation = place + 1;
}

void omn_injecting_begin(const char *variable) {
    const int before = errno;
    const char *path = memory == NULL ? getenv(variable) : NULL;
    struct omn_injected_memory *made = path == NULL ? NULL : map_memory(path);

    if (made != NULL) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page != MAP_FAILED && madvise(page, 4096, MADV_WIPEONFORK) == 0) {
            memory = made;
            omn_generation = generation = page;
            begin_process();
            omn_is_on = &made->is_on;
        } else {
            munmap(made, sizeof(*made));
        }
    }
    errno = before;
}

void omn_injecting_say(uint32_t state) {
    if (memory != NULL && *generation != 0 && *generation != NO_PLACE)
        __atomic_fetch_or(&memory->processes[*generation - 1].state, state, __ATOMIC_RELEASE);
}

static struct omn_injected_buffer *find_free(void) {
    const uint32_t from = __atomic_load_n(&memory->first_free, __ATOMIC_RELAXED);

    for (uint32_t tried = 0; tried < OMN_INJECTED_BUFFERS; tried++) {
        if (__atomic_load_n(&memory->free_buffers, __ATOMIC_ACQUIRE) == 0)
            return NULL;
        const uint32_t index = (from + tried) % OMN_INJECTED_BUFFERS;
        struct omn_injected_buffer *buffer = &memory->buffers[index];
        uint32_t free_state = OMN_BUFFER_FREE;
        if (__atomic_compare_exchange_n(&buffer->state, &free_state, OMN_BUFFER_TAKEN, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            __atomic_fetch_sub(&memory->free_buffers, 1, __ATOMIC_RELAXED);
            __atomic_store_n(&memory->first_free, (index + 1) % OMN_INJECTED_BUFFERS, __ATOMIC_RELAXED);
            return buffer;
        }
    }
    return NULL;
}

static void hold(struct omn_injected_buffer *buffer) {
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&buffer->held, &attributes);
    pthread_mutex_lock(&buffer->held);
}

static void take_buffer(void) {
    struct omn_injected_buffer *buffer = find_free();

    omn_self.buffer = buffer;
    omn_self.next = omn_self.end = NULL;
    if (buffer == NULL)
        return;
    buffer->process = (uint32_t)(omn_self.generation - 1);
    buffer->thread = (uint32_t)syscall(SYS_gettid);
    prctl(PR_GET_NAME, buffer->name);
    buffer->base_ns = omn_self.base_ns = omn_injecting_clock();
    hold(buffer);
    omn_self.next = memory->records[buffer - memory->buffers];
    omn_self.end = omn_self.next + OMN_INJECTED_BUFFER_BYTES;
    /* All its pages at once, which is cheaper than each where it is first written to. Before Linux 5.14 that is how. */
    madvise(omn_self.next, OMN_INJECTED_BUFFER_BYTES, MADV_POPULATE_WRITE);
}

int omn_injecting_take(size_t size) {
    const int before = errno;

    if (*generation == 0)
        begin_process();
    if (omn_self.generation != *generation) {
        /* What the thread had before a fork is its parent's. */
        omn_self.buffer = NULL;
        omn_self.generation = *generation;
    }
    if (omn_self.buffer != NULL) {
        pthread_mutex_unlock(&omn_self.buffer->held);
        __atomic_store_n(&omn_self.buffer->state, OMN_BUFFER_FULL, __ATOMIC_RELEASE);
    }
    omn_self.buffer = NULL;
    omn_self.next = omn_self.end = NULL;
    if (*generation != NO_PLACE)
        take_buffer();
    if (omn_self.next == NULL)
        __atomic_fetch_add(&memory->lost, 1, __ATOMIC_RELAXED);
    errno = before;
    return omn_self.next != NULL && size <= OMN_INJECTED_BUFFER_BYTES;
}

static uint32_t walk(const uint64_t *frame, uint64_t caller, uint64_t *frames) {
    const uintptr_t here = (uintptr_t)frame, block = (uintptr_t)pthread_self();
    const uintptr_t first = &__libc_stack_end == NULL ? 0 : (uintptr_t)__libc_stack_end;
    uintptr_t end = 0;
    uint32_t count = 1;

    if (block - here < THREAD_STACK_BYTES)
        end = block;
    else if (first - here < FIRST_STACK_BYTES)
        end = first;
    frames[0] = caller;
    while (count < memory->depth && count < OMN_MOST_FRAMES) {
        const uint64_t *outer = (const uint64_t *)frame[0];
        if (outer <= frame || (uintptr_t)(outer + 2) > end || (uintptr_t)outer % sizeof(*outer) || outer[1] == 0)
            break;
        frames[count++] = outer[1];
        frame = outer;
    }
    return count;
}

static uint64_t hash_frames(const uint64_t *frames, uint32_t count) {
    uint64_t hash = 0x9e3779b97f4a7c15ULL ^ count;

    for (uint32_t index = 0; index < count; index++) {
        hash = (hash ^ frames[index]) * 0xff51afd7ed558ccdULL;
        hash ^= hash >> 32;
    }
    return hash ? hash : 1;
}

/* Keep the frames of a stack whose place was taken; without room for them the place stays empty. */
static void keep_frames(struct omn_injected_stack *stack, const uint64_t *frames, uint32_t count) {
    const uint32_t at = __atomic_fetch_add(&memory->frame_count, count, __ATOMIC_RELAXED);

    if (at > OMN_INJECTED_FRAMES - count) {
        __atomic_fetch_sub(&memory->frame_count, count, __ATOMIC_RELAXED);
        __atomic_fetch_add(&memory->lost_stacks, 1, __ATOMIC_RELAXED);
        return;
    }
    memcpy(&memory->frames[at], frames, count * sizeof(*frames));
    stack->at = at;
    __atomic_store_n(&stack->length, count, __ATOMIC_RELEASE);
}

uint32_t omn_injecting_stack(const uint64_t *frame, uint64_t caller) {
    uint64_t frames[OMN_MOST_FRAMES];

    if (memory->depth == 0)
        return OMN_NO_STACK;
    const uint32_t count = walk(frame, caller, frames);
    const uint64_t hash = hash_frames(frames, count);
    for (uint32_t probe = 0; probe < MOST_PROBES; probe++) {
        const uint32_t place = (uint32_t)(hash + probe) % OMN_INJECTED_STACKS;
        struct omn_injected_stack *stack = &memory->stacks[place];
        uint64_t kept = __atomic_load_n(&stack->hash, __ATOMIC_RELAXED);
        if (kept == 0 && __atomic_compare_exchange_n(&stack->hash, &kept, hash, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            keep_frames(stack, frames, count);
            return place;
        }
        if (kept == hash)
            return place;
    }
    __atomic_fetch_add(&memory->lost_stacks, 1, __ATOMIC_RELAXED);
    return OMN_NO_STACK;
}
