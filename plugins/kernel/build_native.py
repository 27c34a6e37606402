"""Describe the native modules to cffi by their own headers; the compiler checks all of it against the kernel's headers.

A module's functions, structures and constants stand in its headers alone. Beside them it hands on names of the kernel's
headers, and members of the kernel's structures, whose values and places are the compiler's.
"""

import os
import re
import runpy

from cffi import FFI

# setuptools runs this file by its path, from the project's folder and without __file__, once for each module.
NATIVE = os.path.join("omn_kernel", "native")
SOURCES = runpy.run_path(os.path.join(NATIVE, "sources.py"))
STAMP = SOURCES["compute_stamp"](SOURCES["list_sources"](NATIVE, "build_native.py"))
"""What every module says that it was built of (`omn_kernel.native.building`)."""
FLAGS = ["-std=gnu11", "-Wall", "-Wextra"]

BPF_STRUCTURES = """
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
"""
BPF_NAMES = """
    BPF_MAP_CREATE BPF_MAP_LOOKUP_ELEM BPF_MAP_UPDATE_ELEM
    BPF_PROG_LOAD BPF_PROG_GET_NEXT_ID BPF_MAP_GET_NEXT_ID BPF_LINK_GET_NEXT_ID BPF_PROG_GET_FD_BY_ID
    BPF_BTF_LOAD
    BPF_ENABLE_STATS
    BPF_MAP_TYPE_HASH BPF_MAP_TYPE_ARRAY BPF_MAP_TYPE_PROG_ARRAY BPF_MAP_TYPE_PERF_EVENT_ARRAY
    BPF_MAP_TYPE_PERCPU_HASH BPF_MAP_TYPE_PERCPU_ARRAY BPF_MAP_TYPE_STACK_TRACE BPF_MAP_TYPE_CGROUP_ARRAY
    BPF_MAP_TYPE_LRU_HASH BPF_MAP_TYPE_LRU_PERCPU_HASH BPF_MAP_TYPE_LPM_TRIE BPF_MAP_TYPE_ARRAY_OF_MAPS
    BPF_MAP_TYPE_HASH_OF_MAPS BPF_MAP_TYPE_QUEUE BPF_MAP_TYPE_STACK BPF_MAP_TYPE_SK_STORAGE BPF_MAP_TYPE_RINGBUF
    BPF_MAP_TYPE_INODE_STORAGE BPF_MAP_TYPE_TASK_STORAGE BPF_MAP_TYPE_BLOOM_FILTER
    BPF_F_NO_PREALLOC
    BPF_PROG_TYPE_SOCKET_FILTER BPF_PROG_TYPE_KPROBE BPF_PROG_TYPE_TRACEPOINT BPF_PROG_TYPE_PERF_EVENT
    BPF_PROG_TYPE_RAW_TRACEPOINT BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE BPF_PROG_TYPE_TRACING BPF_PROG_TYPE_LSM
    BPF_PROG_TYPE_SYSCALL
    BPF_TRACE_RAW_TP BPF_TRACE_FENTRY BPF_TRACE_FEXIT BPF_TRACE_ITER BPF_LSM_MAC
    BPF_F_SLEEPABLE
    BPF_FUNC_map_lookup_elem BPF_FUNC_map_update_elem BPF_FUNC_map_delete_elem BPF_FUNC_probe_read_kernel
    BPF_FUNC_probe_read_kernel_str BPF_FUNC_probe_read_user BPF_FUNC_probe_read_user_str BPF_FUNC_ktime_get_ns
    BPF_FUNC_get_smp_processor_id BPF_FUNC_get_current_pid_tgid BPF_FUNC_get_current_comm
    BPF_FUNC_get_current_task BPF_FUNC_get_current_task_btf BPF_FUNC_get_current_cgroup_id
    BPF_FUNC_get_current_ancestor_cgroup_id BPF_FUNC_current_task_under_cgroup BPF_FUNC_get_stackid BPF_FUNC_get_stack
    BPF_FUNC_get_socket_cookie BPF_FUNC_perf_event_output BPF_FUNC_ringbuf_output BPF_FUNC_ringbuf_reserve
    BPF_FUNC_ringbuf_submit BPF_FUNC_ringbuf_discard BPF_FUNC_this_cpu_ptr BPF_FUNC_per_cpu_ptr
    BPF_FUNC_task_storage_get BPF_FUNC_task_storage_delete BPF_FUNC_get_attach_cookie BPF_FUNC_get_func_ip
    BPF_FUNC_task_pt_regs
"""
MAP_NAMES = """
    BPF_F_CURRENT_CPU BPF_RB_NO_WAKEUP
"""
PERF_NAMES = """
    PERF_SAMPLE_ADDR PERF_SAMPLE_STREAM_ID PERF_SAMPLE_PERIOD PERF_SAMPLE_CALLCHAIN PERF_SAMPLE_RAW
    PERF_SAMPLE_REGS_USER PERF_SAMPLE_STACK_USER
    PERF_RECORD_LOST PERF_RECORD_COMM PERF_RECORD_EXIT PERF_RECORD_THROTTLE
    PERF_RECORD_FORK PERF_RECORD_SAMPLE PERF_RECORD_MMAP2 PERF_RECORD_LOST_SAMPLES
    PERF_RECORD_MISC_COMM_EXEC PERF_RECORD_MISC_MMAP_BUILD_ID
    PERF_EVENT_IOC_ENABLE PERF_EVENT_IOC_SET_BPF
    PERF_TYPE_HARDWARE PERF_TYPE_SOFTWARE PERF_TYPE_TRACEPOINT PERF_TYPE_RAW
    PERF_FORMAT_TOTAL_TIME_ENABLED PERF_FORMAT_TOTAL_TIME_RUNNING
"""

MUTEX = "typedef struct { ...; } pthread_mutex_t;"


def read_declarations(header: str) -> str:
    """Return what a header of ours declares, as cffi reads it.

    Numbers that it defines, lengths of arrays, and what stands between the fields of a structure that is aligned are
    left to the compiler.
    """
    with open(os.path.join(NATIVE, header), encoding="ascii") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    numbers = dict.fromkeys(re.findall(r"^#define (OMN_\w+) +[^ \"]", text, flags=re.MULTILINE))
    text = re.sub(r"^#.*", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[OMN_\w+\]", "[...]", text)
    text = re.sub(r"^struct \w+ {.*?^}.*?;", _loosen, text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join([text, *(f"#define {name} ..." for name in numbers)])


def _loosen(structure: re.Match[str]) -> str:
    """Leave what stands between the fields to the compiler where any of them is aligned."""
    text, aligned = re.subn(r" __attribute__\(\(aligned\(\d+\)\)\)", "", structure[0])
    return text.replace("\n}", "\n    ...;\n}") if aligned else text


def describe(
    module: str, headers: list[str], sources: list[str], *, kernel: str = "", names: str = "", more: str = ""
) -> FFI:
    """Describe a module: of our headers and sources, with names of a header of the kernel's, and more declarations."""
    builder = FFI()
    builder.cdef("\n".join([more, *(f"#define {name} ..." for name in ["OMN_SOURCES", *names.split()])]))
    for header in headers:
        builder.cdef(read_declarations(header))
    builder.set_source(
        f"omn_kernel.native.{module}",
        "\n".join(
            [
                f"#define OMN_SOURCES {STAMP}u",
                *([f"#include <{kernel}>"] if kernel else []),
                *(f'#include "{header}"' for header in headers),
            ]
        ),
        sources=[os.path.join(NATIVE, source) for source in sources],
        include_dirs=[NATIVE],
        depends=[os.path.join(NATIVE, header) for header in [*headers, "unwind_inside.h"]],
        extra_compile_args=FLAGS,
    )
    return builder


calls = describe("_calls", ["calls.h"], ["calls.c"], kernel="linux/bpf.h", names=BPF_NAMES, more=BPF_STRUCTURES)
bpf = describe(
    "_bpf",
    ["maps.h", "ringbuf.h", "grace.h", "btf.h"],
    ["maps.c", "ringbuf.c", "grace.c", "btf.c"],
    kernel="linux/bpf.h",
    names=MAP_NAMES,
)
perf = describe(
    "_perf",
    ["perf.h", "rings.h", "records.h"],
    ["perf.c", "rings.c", "records.c"],
    kernel="linux/perf_event.h",
    names=PERF_NAMES,
)
unwind = describe("_unwind", ["unwind.h"], ["unwind.c", "unwind_entries.c", "unwind_expressions.c", "unwind_rules.c"])
injected = describe("_injected", ["injected.h", "heap.h"], ["injected.c", "heap_records.c"], more=MUTEX)
