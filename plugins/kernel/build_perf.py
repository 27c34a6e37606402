"""Describe the native module of perf events to cffi; the compiler checks it against the kernel's own headers."""

import os

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__.
NATIVE = os.path.join("omn_kernel", "native")
PARTS = ("perf", "rings", "records")

DECLARATIONS = """
    struct omn_event {
        uint32_t kind;
        uint32_t flags;
        uint64_t config;
        uint64_t config1;
        uint64_t config2;
        uint64_t read_format;
        uint64_t sample_period;
        uint64_t sample_type;
        uint32_t wakeup_bytes;
        uint32_t max_stack;
        uint64_t user_registers;
        uint32_t user_stack_bytes;
    };
    int omn_event_open(const struct omn_event *event, int pid, int cpu, int is_cgroup);
    int omn_events_read(const int *descriptors, size_t count, size_t words, uint64_t *values);

    struct omn_ring {
        void *base;
        uint64_t size;
    };
    int omn_ring_map(int descriptor, uint64_t size, struct omn_ring *ring);
    void omn_ring_unmap(struct omn_ring *ring);
    uint64_t omn_rings_waiting(const struct omn_ring *rings, size_t count);
    uint64_t omn_rings_drain(struct omn_ring *rings, size_t count, uint8_t *out, uint64_t room, uint64_t *lengths);

    struct omn_record_counts {
        uint64_t samples;
        uint64_t addresses;
        uint64_t others;
        uint64_t stack_bytes;
        uint64_t bytes;
    };
    struct omn_samples {
        uint64_t *ip;
        int32_t *pid;
        int32_t *tid;
        uint64_t *time;
        uint32_t *cpu;
        uint64_t *period;
        uint64_t *accessed;
        uint64_t *stream;
        uint64_t *chain_ends;
        uint32_t *kernel_frames;
        uint64_t *addresses;
        uint64_t *registers;
        uint64_t *stack_ends;
        uint8_t *stacks;
    };
    void omn_records_count(const uint8_t *data, uint64_t length, uint32_t parts, struct omn_record_counts *counts);
    void omn_records_decode(const uint8_t *data, uint64_t length, uint32_t parts, struct omn_samples *samples,
                            uint64_t *others);

    static const uint32_t OMN_EVENT_DISABLED, OMN_EVENT_INHERIT, OMN_EVENT_ENABLE_ON_EXEC, OMN_EVENT_EXCLUDE_KERNEL,
        OMN_EVENT_FREQUENCY, OMN_EVENT_RECORDS_MAPPINGS, OMN_EVENT_RECORDS_TASKS, OMN_EVENT_EXCLUDE_USER_CHAIN,
        OMN_FORMAT_LOST;
    static const uint32_t OMN_PERIODS, OMN_CHAINS, OMN_ACCESSES, OMN_STREAMS, OMN_USER_REGISTERS, OMN_USER_STACKS,
        OMN_REGISTER_COUNT;
    static const uint64_t OMN_SAMPLE_TYPE, OMN_REGISTER_MASK, PERF_SAMPLE_ADDR, PERF_SAMPLE_STREAM_ID,
        PERF_SAMPLE_PERIOD, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_RAW, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER;
    static const uint32_t PERF_RECORD_LOST, PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_THROTTLE,
        PERF_RECORD_UNTHROTTLE, PERF_RECORD_FORK, PERF_RECORD_SAMPLE, PERF_RECORD_MMAP2, PERF_RECORD_LOST_SAMPLES;
    static const uint32_t PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_MMAP_BUILD_ID;
    static const uint32_t PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_SET_BPF;
    static const uint32_t PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, PERF_TYPE_RAW;
    static const uint32_t PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING;
"""

builder = FFI()
builder.cdef(DECLARATIONS)
builder.set_source(
    "omn_kernel.native._perf",
    "#include <linux/perf_event.h>\n" + "".join(f'#include "{part}.h"\n' for part in PARTS),
    sources=[os.path.join(NATIVE, f"{part}.c") for part in PARTS],
    include_dirs=[NATIVE],
    depends=[os.path.join(NATIVE, f"{part}.h") for part in PARTS],
    extra_compile_args=["-std=gnu11", "-Wall", "-Wextra"],
)
