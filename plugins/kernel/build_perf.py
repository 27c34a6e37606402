"""Describe the native module of perf events to cffi; the compiler checks it against the kernel's own headers."""

import os

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__.
NATIVE = os.path.join("omn_kernel", "native")

DECLARATIONS = """
    struct omn_event {
        uint32_t kind;
        uint32_t flags;
        uint64_t config;
        uint64_t config1;
        uint64_t config2;
        uint64_t read_format;
    };
    int omn_event_open(const struct omn_event *event, int pid, int cpu, int is_cgroup);
    int omn_events_read(const int *descriptors, size_t count, size_t words, uint64_t *values);

    static const uint32_t OMN_EVENT_DISABLED, OMN_EVENT_INHERIT, OMN_EVENT_ENABLE_ON_EXEC, OMN_EVENT_EXCLUDE_KERNEL;
    static const uint32_t PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, PERF_TYPE_RAW;
    static const uint32_t PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING;
"""

builder = FFI()
builder.cdef(DECLARATIONS)
builder.set_source(
    "omn_kernel.native._perf",
    '#include <linux/perf_event.h>\n#include "perf.h"\n',
    sources=[os.path.join(NATIVE, "perf.c")],
    include_dirs=[NATIVE],
    depends=[os.path.join(NATIVE, "perf.h")],
    extra_compile_args=["-std=gnu11", "-Wall", "-Wextra"],
)
