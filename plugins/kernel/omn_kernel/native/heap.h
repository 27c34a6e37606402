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

/* A block is there from `ns` on, at `addr`, 0 for none; `given` is one that the call was handed, which it may have given
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

#endif
