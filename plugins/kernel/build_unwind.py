"""Describe the unwinder to cffi."""

import os

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__.
NATIVE = os.path.join("omn_kernel", "native")
SOURCES = ("unwind.c", "unwind_entries.c", "unwind_expressions.c", "unwind_rules.c")

DECLARATIONS = """
    struct omn_frame_table {
        const uint8_t *content;
        uint64_t size;
        uint64_t address;
        uint64_t debug_at;
        const uint64_t *starts;
        const uint64_t *ends;
        const uint64_t *entries;
        uint64_t count;
    };
    struct omn_frame_range { uint64_t start; uint64_t end; uint64_t bias; int64_t table; uint64_t entry; };

    uint64_t omn_list_frames(const uint8_t *content, uint64_t size, uint64_t address, uint64_t debug_at,
                             uint64_t *starts, uint64_t *ends, uint64_t *entries, uint64_t capacity);
    void omn_unwind_many(const struct omn_frame_table *tables, const struct omn_frame_range *ranges,
                         uint64_t range_count, uint64_t count, const uint64_t *registers, const uint8_t *stacks,
                         const uint64_t *stack_starts, const uint64_t *stack_ends, uint64_t *addresses, uint8_t *exact,
                         uint32_t capacity, uint32_t *lengths, uint8_t *reasons);
    void omn_find_callers(const struct omn_frame_table *tables, const struct omn_frame_range *ranges,
                          uint64_t range_count, uint64_t count, const uint64_t *registers, const uint8_t *stacks,
                          const uint64_t *stack_starts, const uint64_t *stack_ends, uint64_t *callers, uint8_t *kinds);

    #define OMN_REGISTERS ...
    #define OMN_ROOT ...
    #define OMN_STACK_END ...
    #define OMN_NO_TABLE ...
    #define OMN_BAD_TABLE ...
    #define OMN_TOO_DEEP ...
    #define OMN_FRAMED ...
    #define OMN_FRAMELESS ...
    #define OMN_CLOBBERED ...
    #define OMN_UNKNOWN ...
"""

builder = FFI()
builder.cdef(DECLARATIONS)
builder.set_source(
    "omn_kernel.native._unwind",
    '#include "unwind.h"\n',
    sources=[os.path.join(NATIVE, name) for name in SOURCES],
    include_dirs=[NATIVE],
    depends=[os.path.join(NATIVE, name) for name in ("unwind.h", "unwind_inside.h")],
    extra_compile_args=["-std=gnu11", "-Wall", "-Wextra"],
)
