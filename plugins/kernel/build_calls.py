"""Describe the native module to cffi; the compiler checks it against the kernel's own headers."""

import os

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__.
NATIVE = os.path.join("omn_kernel", "native")

DECLARATIONS = """
    int omn_bpf_map_create(uint32_t type, uint32_t key_size, uint32_t value_size, uint32_t entries, uint32_t flags,
                           int btf, uint32_t key_id, uint32_t value_id, int inner);
    int omn_bpf_btf_load(const void *data, uint32_t size);
    int omn_bpf_program_load(uint32_t type, uint32_t attach_type, uint32_t attach_id);
    int omn_bpf_raw_tracepoint_open(const char *name, int program);
    int omn_bpf_uprobe_multi_link(const char *path, int program);
    int omn_bpf_iter_link(int program);
    int omn_enter_network(int namespace);

    static const uint32_t BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PROG_ARRAY,
        BPF_MAP_TYPE_PERF_EVENT_ARRAY, BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY,
        BPF_MAP_TYPE_STACK_TRACE, BPF_MAP_TYPE_CGROUP_ARRAY, BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_LRU_PERCPU_HASH,
        BPF_MAP_TYPE_LPM_TRIE, BPF_MAP_TYPE_ARRAY_OF_MAPS, BPF_MAP_TYPE_HASH_OF_MAPS, BPF_MAP_TYPE_QUEUE,
        BPF_MAP_TYPE_STACK, BPF_MAP_TYPE_SK_STORAGE, BPF_MAP_TYPE_RINGBUF, BPF_MAP_TYPE_INODE_STORAGE,
        BPF_MAP_TYPE_TASK_STORAGE, BPF_MAP_TYPE_BLOOM_FILTER;
    static const uint32_t BPF_F_NO_PREALLOC, BPF_F_INNER_MAP;

    static const uint32_t BPF_PROG_TYPE_SOCKET_FILTER, BPF_PROG_TYPE_KPROBE, BPF_PROG_TYPE_TRACEPOINT,
        BPF_PROG_TYPE_PERF_EVENT, BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE,
        BPF_PROG_TYPE_TRACING, BPF_PROG_TYPE_LSM, BPF_PROG_TYPE_SYSCALL;
    static const uint32_t BPF_TRACE_RAW_TP, BPF_TRACE_FENTRY, BPF_TRACE_FEXIT, BPF_TRACE_ITER, BPF_LSM_MAC;
    static const uint32_t OMN_BPF_TRACE_UPROBE_MULTI;
"""

builder = FFI()
builder.cdef(DECLARATIONS)
builder.set_source(
    "omn_kernel.native._calls",
    '#include <linux/bpf.h>\n#include "calls.h"\n',
    sources=[os.path.join(NATIVE, "calls.c")],
    include_dirs=[NATIVE],
    depends=[os.path.join(NATIVE, "calls.h")],
    extra_compile_args=["-std=gnu11", "-Wall", "-Wextra"],
)
