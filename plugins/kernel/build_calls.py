"""Describe the native module to cffi; the compiler checks it against the kernel's own headers."""

import os

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__.
NATIVE = os.path.join("omn_kernel", "native")

DECLARATIONS = """
    union bpf_attr {
        uint32_t map_type, key_size, value_size, max_entries, map_flags, inner_map_fd;
        char map_name[16];
        uint32_t btf_fd, btf_key_type_id, btf_value_type_id;

        uint32_t map_fd;
        uint64_t key, value, next_key, flags;

        uint32_t prog_type, insn_cnt, log_level, log_size, prog_flags, expected_attach_type, attach_btf_id;
        uint64_t insns, license, log_buf;
        char prog_name[16];

        uint64_t btf;
        uint32_t btf_size;

        uint32_t start_id, next_id, open_flags;
        ...;
    };
    struct bpf_prog_info {
        uint32_t id;
        uint64_t run_time_ns, run_cnt, recursion_misses;
        ...;
    };
    int omn_bpf(int command, void *attributes, uint32_t size);
    int omn_bpf_raw_tracepoint_open(const char *name, int program);
    int omn_bpf_link_create(int program, int target, uint32_t attach_type);
    struct omn_bpf_places {
        const uint64_t *offsets;
        const uint64_t *cookies;
        uint32_t count;
        uint32_t pid;
        uint32_t is_return;
    };
    int omn_bpf_uprobe_multi_link(const char *path, int program, const struct omn_bpf_places *places);
    int omn_bpf_run_on(int program, uint32_t cpu);
    int omn_bpf_info(int descriptor, void *information, uint32_t *size);
    int omn_enter_network(int namespace);
    int64_t omn_read_ended_cpu(int pid);

    static const uint32_t BPF_MAP_CREATE, BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM,
        BPF_MAP_GET_NEXT_KEY, BPF_PROG_LOAD, BPF_PROG_GET_NEXT_ID, BPF_MAP_GET_NEXT_ID, BPF_LINK_GET_NEXT_ID,
        BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID, BPF_BTF_LOAD, BPF_MAP_LOOKUP_AND_DELETE_ELEM, BPF_MAP_FREEZE,
        BPF_MAP_LOOKUP_BATCH, BPF_MAP_LOOKUP_AND_DELETE_BATCH, BPF_MAP_UPDATE_BATCH, BPF_MAP_DELETE_BATCH,
        BPF_ENABLE_STATS;

    static const uint32_t BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PROG_ARRAY,
        BPF_MAP_TYPE_PERF_EVENT_ARRAY, BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY,
        BPF_MAP_TYPE_STACK_TRACE, BPF_MAP_TYPE_CGROUP_ARRAY, BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_LRU_PERCPU_HASH,
        BPF_MAP_TYPE_LPM_TRIE, BPF_MAP_TYPE_ARRAY_OF_MAPS, BPF_MAP_TYPE_HASH_OF_MAPS, BPF_MAP_TYPE_QUEUE,
        BPF_MAP_TYPE_STACK, BPF_MAP_TYPE_SK_STORAGE, BPF_MAP_TYPE_RINGBUF, BPF_MAP_TYPE_INODE_STORAGE,
        BPF_MAP_TYPE_TASK_STORAGE, BPF_MAP_TYPE_BLOOM_FILTER;
    static const uint32_t BPF_F_NO_PREALLOC, BPF_F_INNER_MAP, BPF_F_MMAPABLE;
    static const uint32_t BPF_ANY, BPF_NOEXIST, BPF_EXIST;

    static const uint32_t BPF_PROG_TYPE_SOCKET_FILTER, BPF_PROG_TYPE_KPROBE, BPF_PROG_TYPE_TRACEPOINT,
        BPF_PROG_TYPE_PERF_EVENT, BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE,
        BPF_PROG_TYPE_TRACING, BPF_PROG_TYPE_LSM, BPF_PROG_TYPE_SYSCALL;
    static const uint32_t BPF_TRACE_RAW_TP, BPF_TRACE_FENTRY, BPF_TRACE_FEXIT, BPF_TRACE_ITER, BPF_LSM_MAC,
        BPF_PERF_EVENT;
    static const uint32_t BPF_F_SLEEPABLE;
    static const uint32_t BPF_FUNC_map_lookup_elem, BPF_FUNC_map_update_elem, BPF_FUNC_map_delete_elem,
        BPF_FUNC_probe_read_kernel, BPF_FUNC_probe_read_kernel_str, BPF_FUNC_probe_read_user,
        BPF_FUNC_probe_read_user_str, BPF_FUNC_ktime_get_ns, BPF_FUNC_get_smp_processor_id,
        BPF_FUNC_get_current_pid_tgid, BPF_FUNC_get_current_comm, BPF_FUNC_get_current_task,
        BPF_FUNC_get_current_task_btf, BPF_FUNC_get_current_cgroup_id, BPF_FUNC_get_current_ancestor_cgroup_id,
        BPF_FUNC_get_stackid, BPF_FUNC_get_stack, BPF_FUNC_get_socket_cookie,
        BPF_FUNC_perf_event_output, BPF_FUNC_ringbuf_output,
        BPF_FUNC_ringbuf_reserve, BPF_FUNC_ringbuf_submit, BPF_FUNC_ringbuf_discard, BPF_FUNC_this_cpu_ptr,
        BPF_FUNC_per_cpu_ptr, BPF_FUNC_task_storage_get, BPF_FUNC_task_storage_delete,
        BPF_FUNC_get_attach_cookie, BPF_FUNC_get_func_ip, BPF_FUNC_task_pt_regs;
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
