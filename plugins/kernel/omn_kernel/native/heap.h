/* What the library on a program's allocator writes of each call. */

#ifndef OMN_HEAP_H
#define OMN_HEAP_H

#include <stdint.h>

#define OMN_HEAP_VARIABLE "OMN_HEAP_MEMORY"

enum {
    OMN_HEAP_MALLOC = 1,
    OMN_HEAP_CALLOC,
    OMN_HEAP_REALLOC,
    OMN_HEAP_POSIX_MEMALIGN,
    OMN_HEAP_ALIGNED_ALLOC,
    OMN_HEAP_MEMALIGN,
    OMN_HEAP_VALLOC,
    OMN_HEAP_PVALLOC,
    OMN_HEAP_FREE,
};

/* A record as it is written, in words of 64 bits: the first holds what was called, the stack, and how many nanoseconds
   after its buffer was taken; the others are what is beside the names below. A program touches as few pages as can be:
   each costs it as much as dozens of records. */
#define OMN_HEAP_OP_BITS 4
#define OMN_HEAP_STACK_BITS 17
#define OMN_HEAP_NS_BITS (64 - OMN_HEAP_OP_BITS - OMN_HEAP_STACK_BITS)
#define OMN_HEAP_NO_STACK ((1U << OMN_HEAP_STACK_BITS) - 1)

enum {
    OMN_HEAP_FREE_WORDS = 2,  /* given */
    OMN_HEAP_MADE_WORDS = 3,  /* addr, bytes */
    OMN_HEAP_MOVED_WORDS = 5, /* addr, bytes, given, began_ns: of realloc alone */
};

/* A record as it is read. A block is there from `ns` on, at `addr`, 0 for none; `given` is one that the call was handed, which it may have given
   back from `began_ns` on. */
struct omn_heap_record {
    uint64_t ns;
    uint64_t began_ns;
    uint64_t bytes;
    uint64_t addr;
    uint64_t given;
    uint32_t op;
    uint32_t stack;
};

struct omn_injected_part;

/* How many whole records begin some bytes; how many bytes the first so many of them are. */
uint64_t omn_heap_count(const uint8_t *content, uint64_t bytes);
uint64_t omn_heap_measure(const uint8_t *content, uint64_t bytes, uint64_t count);

/* Read the records of some parts, and of each which part it is of, into places for as many as can be: the content's words
   over OMN_HEAP_FREE_WORDS. Returns how many there are. */
uint64_t omn_heap_read(const uint8_t *content, const struct omn_injected_part *parts, uint64_t count,
                       struct omn_heap_record *records, uint32_t *whose);

/* Read them as rows instead, each the first of the calls that were to make a block and are alike: in whose they are,
   what was called, how much was asked, the stack, and whether it was had. `weights` is how many each stands for.
   `places` are zeroes, a power of two of them, `last` and one more: twice as many as there can be records, or more.
   `frees` is how many blocks were given back by free. Returns how many rows there are. */
uint64_t omn_heap_add_up(const uint8_t *content, const struct omn_injected_part *parts, uint64_t count,
                         struct omn_heap_record *rows, uint32_t *whose, int64_t *weights, uint32_t *places,
                         uint64_t last, uint64_t *frees);

#endif
