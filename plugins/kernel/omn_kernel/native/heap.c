/* The functions of an allocator, in front of those that a program would call: each is passed on, and recorded. */
#define _GNU_SOURCE
#include "heap.h"
#include "injecting.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#define HERE ((const uint64_t *)__builtin_frame_address(0))
#define CALLER ((uint64_t)(uintptr_t)__builtin_return_address(0))
/* A product that no 63 bits hold is as many as these do. */
#define MOST_BYTES INT64_MAX
/* For how long a buffer is written to: a record holds no later time. */
#define MOST_SINCE_NS ((1ULL << OMN_HEAP_NS_BITS) - 1)

/* What the loader takes while the next functions are looked for: it is never given back. */
static _Alignas(16) uint8_t early[64 << 10];
static size_t early_used;
static int is_looking;
/* Whether a call came here and was passed on alone. */
static int has_passed;

static void *first_malloc(size_t size);
static void *first_calloc(size_t count, size_t size);
static void *first_realloc(void *given, size_t size);
static int first_posix_memalign(void **place, size_t alignment, size_t size);
static void *first_aligned_alloc(size_t alignment, size_t size);
static void *first_memalign(size_t alignment, size_t size);
static void *first_valloc(size_t size);
static void *first_pvalloc(size_t size);
static void first_free(void *given);

static void *(*next_malloc)(size_t) = first_malloc;
static void *(*next_calloc)(size_t, size_t) = first_calloc;
static void *(*next_realloc)(void *, size_t) = first_realloc;
static int (*next_posix_memalign)(void **, size_t, size_t) = first_posix_memalign;
static void *(*next_aligned_alloc)(size_t, size_t) = first_aligned_alloc;
static void *(*next_memalign)(size_t, size_t) = first_memalign;
static void *(*next_valloc)(size_t) = first_valloc;
static void *(*next_pvalloc)(size_t) = first_pvalloc;
static void (*next_free)(void *) = first_free;

static int is_early(const void *block) { return (uintptr_t)block - (uintptr_t)early < sizeof(early); }

static void *take_early(size_t size) {
    const size_t whole = (size + 31) & ~(size_t)15;

    if (size > sizeof(early) || whole > sizeof(early) - early_used) {
        errno = ENOMEM;
        return NULL;
    }
    uint8_t *block = early + early_used + 16;
    memcpy(block - 16, &size, sizeof(size));
    early_used += whole;
    return block;
}

/* The loader's own functions are looked for here, which may ask for memory: `early` is what it gets. */
static int look(void) {
    if (is_looking)
        return 0;
    is_looking = 1;
    void *found[] = {
        dlsym(RTLD_NEXT, "malloc"),         dlsym(RTLD_NEXT, "calloc"),        dlsym(RTLD_NEXT, "realloc"),
        dlsym(RTLD_NEXT, "posix_memalign"), dlsym(RTLD_NEXT, "aligned_alloc"), dlsym(RTLD_NEXT, "memalign"),
        dlsym(RTLD_NEXT, "valloc"),         dlsym(RTLD_NEXT, "pvalloc"),       dlsym(RTLD_NEXT, "free"),
    };
    next_malloc = (void *(*)(size_t))found[0];
    next_calloc = (void *(*)(size_t, size_t))found[1];
    next_realloc = (void *(*)(void *, size_t))found[2];
    next_posix_memalign = (int (*)(void **, size_t, size_t))found[3];
    next_aligned_alloc = (void *(*)(size_t, size_t))found[4];
    next_memalign = (void *(*)(size_t, size_t))found[5];
    next_valloc = (void *(*)(size_t))found[6];
    next_pvalloc = (void *(*)(size_t))found[7];
    next_free = (void (*)(void *))found[8];
    is_looking = 0;
    omn_injecting_begin(OMN_HEAP_VARIABLE);
    return 1;
}

static void *first_malloc(size_t size) { return look() ? next_malloc(size) : take_early(size); }

static void *first_calloc(size_t count, size_t size) {
    size_t whole;

    if (look())
        return next_calloc(count, size);
    return __builtin_mul_overflow(count, size, &whole) ? NULL : take_early(whole);
}

static void *first_realloc(void *given, size_t size) { return look() ? next_realloc(given, size) : take_early(size); }

static int first_posix_memalign(void **place, size_t alignment, size_t size) {
    return look() ? next_posix_memalign(place, alignment, size) : ENOMEM;
}

static void *first_aligned_alloc(size_t alignment, size_t size) {
    return look() ? next_aligned_alloc(alignment, size) : NULL;
}

static void *first_memalign(size_t alignment, size_t size) { return look() ? next_memalign(alignment, size) : NULL; }

static void *first_valloc(size_t size) { return look() ? next_valloc(size) : NULL; }

static void *first_pvalloc(size_t size) { return look() ? next_pvalloc(size) : NULL; }

static void first_free(void *given) {
    if (look())
        next_free(given);
}

struct call {
    uint32_t op;
    uint64_t bytes;
    uint64_t given;
    uint64_t began_ns;
    const uint64_t *frame;
    uint64_t caller;
};

static uint64_t join_first(const struct call *call, uint64_t since_ns) {
    const uint32_t stack = call->op == OMN_HEAP_FREE ? OMN_NO_STACK : omn_injecting_stack(call->frame, call->caller);

    return call->op | (uint64_t)(stack == OMN_NO_STACK ? OMN_HEAP_NO_STACK : stack) << OMN_HEAP_OP_BITS |
           since_ns << (OMN_HEAP_OP_BITS + OMN_HEAP_STACK_BITS);
}

/* Record a call that is over, or of free one that is to be made. */
static inline __attribute__((always_inline)) void note(const struct call *call, const void *block) {
    const int is_timed = omn_is_timed();
    const uint64_t now_ns = omn_injecting_clock();
    const size_t words = call->op == OMN_HEAP_FREE      ? OMN_HEAP_FREE_WORDS
                         : call->op == OMN_HEAP_REALLOC ? OMN_HEAP_MOVED_WORDS
                                                        : OMN_HEAP_MADE_WORDS;
    uint64_t *record = omn_reserve(words * sizeof(*record));

    if (record != NULL && now_ns - omn_self.base_ns > MOST_SINCE_NS && now_ns > omn_self.base_ns)
        record = omn_injecting_take(words * sizeof(*record)) ? (uint64_t *)omn_self.next : NULL;
    if (record == NULL)
        return;
    /* A buffer that was taken just now is younger than the clock's reading. */
    record[0] = join_first(call, now_ns > omn_self.base_ns ? now_ns - omn_self.base_ns : 0);
    if (call->op == OMN_HEAP_FREE) {
        record[1] = call->given;
    } else {
        record[1] = (uint64_t)(uintptr_t)block;
        record[2] = call->bytes;
    }
    if (call->op == OMN_HEAP_REALLOC) {
        record[3] = call->given;
        record[4] = call->began_ns ? call->began_ns : now_ns;
    }
    omn_commit(words * sizeof(*record));
    if (is_timed)
        omn_add_timed(omn_injecting_clock() - now_ns);
}

static inline __attribute__((always_inline)) void *finish(struct call call, void *block) {
    note(&call, block);
    omn_leaves();
    return block;
}

EXPORTED void *malloc(size_t size) {
    if (!omn_enters((uintptr_t)HERE)) {
        has_passed = 1;
        return next_malloc(size);
    }
    return finish((struct call){OMN_HEAP_MALLOC, size, 0, 0, HERE, CALLER}, next_malloc(size));
}

EXPORTED void *calloc(size_t count, size_t size) {
    uint64_t bytes;

    if (!omn_enters((uintptr_t)HERE))
        return next_calloc(count, size);
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > MOST_BYTES)
        bytes = MOST_BYTES;
    return finish((struct call){OMN_HEAP_CALLOC, bytes, 0, 0, HERE, CALLER}, next_calloc(count, size));
}

/* Make another block of what the loader took early, which the next function knows nothing of. */
static void *move_early(void *given, size_t size) {
    size_t had;
    void *block = next_malloc(size);

    memcpy(&had, (uint8_t *)given - 16, sizeof(had));
    if (block != NULL)
        memcpy(block, given, had < size ? had : size);
    return block;
}

static void *reallocate(void *given, size_t size, const uint64_t *frame, uint64_t caller) {
    if (is_early(given))
        return move_early(given, size);
    if (!omn_enters((uintptr_t)frame))
        return next_realloc(given, size);
    const uint64_t began_ns = given == NULL ? 0 : omn_injecting_clock();
    return finish((struct call){OMN_HEAP_REALLOC, size, (uint64_t)(uintptr_t)given, began_ns, frame, caller},
                  next_realloc(given, size));
}

EXPORTED void *realloc(void *given, size_t size) { return reallocate(given, size, HERE, CALLER); }

EXPORTED void *reallocarray(void *given, size_t count, size_t size) {
    size_t whole;

    if (!__builtin_mul_overflow(count, size, &whole))
        return reallocate(given, whole, HERE, CALLER);
    if (omn_enters((uintptr_t)HERE))
        finish((struct call){OMN_HEAP_REALLOC, MOST_BYTES, (uint64_t)(uintptr_t)given, 0, HERE, CALLER}, NULL);
    errno = ENOMEM;
    return NULL;
}

EXPORTED int posix_memalign(void **place, size_t alignment, size_t size) {
    if (!omn_enters((uintptr_t)HERE))
        return next_posix_memalign(place, alignment, size);
    const int failed = next_posix_memalign(place, alignment, size);
    finish((struct call){OMN_HEAP_POSIX_MEMALIGN, size, 0, 0, HERE, CALLER}, failed ? NULL : *place);
    return failed;
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size) {
    if (!omn_enters((uintptr_t)HERE))
        return next_aligned_alloc(alignment, size);
    return finish((struct call){OMN_HEAP_ALIGNED_ALLOC, size, 0, 0, HERE, CALLER}, next_aligned_alloc(alignment, size));
}

EXPORTED void *memalign(size_t alignment, size_t size) {
    if (!omn_enters((uintptr_t)HERE))
        return next_memalign(alignment, size);
    return finish((struct call){OMN_HEAP_MEMALIGN, size, 0, 0, HERE, CALLER}, next_memalign(alignment, size));
}

EXPORTED void *valloc(size_t size) {
    if (!omn_enters((uintptr_t)HERE))
        return next_valloc(size);
    return finish((struct call){OMN_HEAP_VALLOC, size, 0, 0, HERE, CALLER}, next_valloc(size));
}

EXPORTED void *pvalloc(size_t size) {
    if (!omn_enters((uintptr_t)HERE))
        return next_pvalloc(size);
    return finish((struct call){OMN_HEAP_PVALLOC, size, 0, 0, HERE, CALLER}, next_pvalloc(size));
}

EXPORTED void free(void *given) {
    if (given == NULL || is_early(given))
        return;
    if (!omn_enters((uintptr_t)HERE)) {
        next_free(given);
        return;
    }
    note(&(struct call){.op = OMN_HEAP_FREE, .given = (uint64_t)(uintptr_t)given}, NULL);
    next_free(given);
    omn_leaves();
}

/* Whether the program's calls come here, and not to functions of the same names of its own. */
static int is_called(void) {
    void *(*volatile ask)(size_t) = malloc;
    void (*volatile give_back)(void *) = free;

    /* As if inside another call, so that nothing is recorded of it. */
    omn_self.outer = UINTPTR_MAX;
    has_passed = 0;
    give_back(ask(1));
    omn_self.outer = 0;
    return has_passed;
}

__attribute__((constructor)) static void begin(void) {
    if (next_malloc == first_malloc)
        look();
    omn_injecting_begin(OMN_HEAP_VARIABLE);
    if (!is_called())
        omn_injecting_say(OMN_PROCESS_BYPASSED);
}

__attribute__((destructor)) static void end(void) { omn_injecting_say(OMN_PROCESS_EXITING); }
