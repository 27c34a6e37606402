"""Describe to cffi omn's side of the memory that a library inside a program writes to."""

import os

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__.
NATIVE = os.path.join("omn_kernel", "native")

DECLARATIONS = """
    struct omn_injected_process {
        uint32_t state;
        uint32_t pid;
        uint32_t parent;
        uint32_t pid_namespace;
        uint64_t began_ns;
        ...;
    };
    struct omn_injected_stack { uint64_t hash; uint32_t at; uint32_t length; ...; };
    struct omn_injected_part { uint32_t process; uint32_t thread; uint32_t bytes; char name[16]; uint64_t base_ns;
                               ...; };
    struct omn_injected_cost { uint64_t timed; uint64_t timed_ns; uint64_t timed_long; ...; };
    struct omn_injected_memory {
        uint64_t lost;
        uint64_t lost_stacks;
        uint64_t lost_processes;
        uint32_t process_count;
        uint32_t frame_count;
        struct omn_injected_process processes[...];
        struct omn_injected_stack stacks[...];
        uint64_t frames[...];
        uint8_t records[...][32768];
        ...;
    };
    struct omn_heap_record {
        uint64_t ns;
        uint64_t began_ns;
        uint64_t bytes;
        uint64_t addr;
        uint64_t given;
        uint32_t op;
        uint32_t stack;
        ...;
    };

    void omn_injected_begin(struct omn_injected_memory *memory, uint32_t depth);
    void omn_injected_turn(struct omn_injected_memory *memory, uint32_t is_on);
    uint64_t omn_injected_waiting(const struct omn_injected_memory *memory, const uint32_t *consumed);
    uint32_t omn_injected_drain(struct omn_injected_memory *memory, uint32_t *consumed, uint8_t *out, uint64_t room,
                                struct omn_injected_part *parts, struct omn_injected_cost *cost);
    void omn_injected_add_cost(const struct omn_injected_memory *memory, struct omn_injected_cost *cost);

    uint64_t omn_heap_count(const uint8_t *content, uint64_t bytes);
    uint64_t omn_heap_measure(const uint8_t *content, uint64_t bytes, uint64_t count);
    uint64_t omn_heap_read(const uint8_t *content, const struct omn_injected_part *parts, uint64_t count,
                           struct omn_heap_record *records, uint32_t *whose);
    uint64_t omn_heap_add_up(const uint8_t *content, const struct omn_injected_part *parts, uint64_t count,
                             struct omn_heap_record *rows, uint32_t *whose, int64_t *weights, uint32_t *places,
                             uint64_t last, uint64_t *frees);

    static const uint32_t OMN_INJECTED_PROCESSES, OMN_INJECTED_BUFFERS, OMN_INJECTED_STACKS, OMN_PROCESS_SEEN,
        OMN_PROCESS_BYPASSED, OMN_PROCESS_EXITING, OMN_NO_STACK, OMN_MOST_FRAMES, OMN_HEAP_FREE_WORDS;
"""

builder = FFI()
builder.cdef(DECLARATIONS)
builder.set_source(
    "omn_kernel.native._injected",
    '#include "injected.h"\n#include "heap.h"\n',
    sources=[os.path.join(NATIVE, name) for name in ("injected.c", "heap_records.c")],
    include_dirs=[NATIVE],
    depends=[os.path.join(NATIVE, name) for name in ("injected.h", "heap.h")],
    extra_compile_args=["-std=gnu11", "-Wall", "-Wextra"],
)
