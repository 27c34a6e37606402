"""eBPF: a map type is asked by making one, a program type by loading and attaching the smallest program of it."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Mapping

import attrs

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.bpf.refusals import PERMISSION, RAISE_MEMORY_LIMIT, find_memory_limit
from omn_kernel.bpf.storage_types import KEY_TYPE, VALUE_TYPE, make_storage_types
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.btf.types import Btf
from omn_kernel.native import calls
from omn_kernel.privileges import refuse_permission

_QUIET_TRACEPOINT = "sched_process_exec"
"""A tracepoint that every kernel has and that fires seldom: attaching to it for an instant disturbs nothing."""
_RETURN_ZERO = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)
"""The smallest program: r0 = 0, exit."""


def compute_answer(what: str, error: OSError) -> Probe:
    """Make an answer of how bpf(2) refused: EPERM is restricted, whatever says that it has no such thing missing."""
    if error.errno in PERMISSION:
        return refuse_permission(what, "bpf", error)
    if error.errno in (errno.ENOSYS, errno.EINVAL, errno.ENOENT, errno.EOPNOTSUPP, 524):
        return Probe(State.MISSING, f"this kernel has no {what} ({os.strerror(error.errno or 0)})")
    return Probe(State.UNKNOWN, f"{what} answers {error.strerror}")


# Maps ------------------------------------------------------------------------------------------------------------


@attrs.frozen(repr=False)
class _MapShape:
    """The smallest map of a type: what the kernel insists on for its key, value, entries and flags."""

    key_size: int = 4
    value_size: int = 4
    entries: int = 1
    flags: str | None = None
    storage: bool = False
    holds_maps: bool = False


_LOCAL_STORAGE = _MapShape(entries=0, flags="BPF_F_NO_PREALLOC", storage=True)
_MAPS: Mapping[str, _MapShape] = {
    "hash": _MapShape(),
    "array": _MapShape(),
    "prog_array": _MapShape(),
    "perf_event_array": _MapShape(),
    "percpu_hash": _MapShape(),
    "percpu_array": _MapShape(),
    "stack_trace": _MapShape(value_size=8),
    "cgroup_array": _MapShape(),
    "lru_hash": _MapShape(),
    "lru_percpu_hash": _MapShape(),
    "lpm_trie": _MapShape(key_size=8, flags="BPF_F_NO_PREALLOC"),
    "array_of_maps": _MapShape(holds_maps=True),
    "hash_of_maps": _MapShape(holds_maps=True),
    "queue": _MapShape(key_size=0),
    "stack": _MapShape(key_size=0),
    "ringbuf": _MapShape(key_size=0, value_size=0, entries=os.sysconf("SC_PAGE_SIZE")),
    "bloom_filter": _MapShape(key_size=0),
    "sk_storage": _LOCAL_STORAGE,
    "inode_storage": _LOCAL_STORAGE,
    "task_storage": _LOCAL_STORAGE,
}


def probe_map(need: Need, _context: ProbeContext) -> Probe:
    """Answer `bpf_map:ringbuf` by creating the smallest map of that type."""
    shape = _MAPS.get(need.argument)
    kind = calls.constant(f"BPF_MAP_TYPE_{need.argument.upper()}")
    if shape is None or kind is None:
        return Probe(State.UNKNOWN, f"this build knows no eBPF map type {need.argument!r}")
    opened: list[int] = []
    try:
        _create(kind, shape, opened)
    except OSError as error:
        return _explain_locked_memory(compute_answer(f"the eBPF map type {need.argument}", error), error)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return AVAILABLE


def _create(kind: int, shape: _MapShape, opened: list[int]) -> None:
    flags = (calls.constant(shape.flags) or 0) if shape.flags else 0
    inner = btf = 0
    if shape.holds_maps:
        inner = calls.create_map(calls.constant("BPF_MAP_TYPE_ARRAY") or 0, 4, 4, 1)
        opened.append(inner)
    if shape.storage:
        btf = calls.load_btf(make_storage_types(4))
        opened.append(btf)
    opened.append(
        calls.create_map(
            kind,
            shape.key_size,
            shape.value_size,
            shape.entries,
            flags,
            btf=btf,
            key_id=KEY_TYPE if shape.storage else 0,
            value_id=VALUE_TYPE if shape.storage else 0,
            inner=inner,
        )
    )


def _explain_locked_memory(answer: Probe, error: OSError) -> Probe:
    """Add the limit that kernels before 5.11 charge maps to, which they refuse with EPERM."""
    limit = find_memory_limit(error)
    if limit is None:
        return answer
    return attrs.evolve(answer, reason=f"{answer.reason}; {limit}", remedy=answer.remedy or RAISE_MEMORY_LIMIT)


# Programs --------------------------------------------------------------------------------------------------------


def _load_plain(kind: str) -> Callable[[], None]:
    def load() -> None:
        os.close(_load(kind))

    return load


def _load(kind: str, attach_type: str = "", identifier: int = 0) -> int:
    """Load the smallest program of a type and return its descriptor. Raises OSError."""
    # A program of this type is one that sleeps, and the kernel wants that said.
    flags = calls.constant("BPF_F_SLEEPABLE") if kind == "SYSCALL" else 0
    return calls.load_program(
        calls.constant(f"BPF_PROG_TYPE_{kind}") or 0,
        _RETURN_ZERO,
        attach_type=calls.constant(attach_type) or 0,
        attach_id=identifier,
        flags=flags or 0,
    )


def load_raw_tracepoint(name: str) -> None:
    """Load a raw tracepoint program and attach it to a tracepoint for an instant. Raises OSError."""
    program = _load("RAW_TRACEPOINT")
    try:
        os.close(calls.open_raw_tracepoint(program, name))
    finally:
        os.close(program)


def load_tracing(attach_type: str, identifier: int) -> None:
    """Load a program that the kernel attaches by type, and attach it for an instant. Raises OSError."""
    kind = "LSM" if attach_type == "BPF_LSM_MAC" else "TRACING"
    program = _load(kind, attach_type, identifier)
    try:
        if attach_type == "BPF_TRACE_ITER":
            link = calls.create_link(program, 0, calls.constant(attach_type) or 0)
        else:
            link = calls.open_raw_tracepoint(program)
        os.close(link)
    finally:
        os.close(program)


_PROGRAMS: Mapping[str, Callable[[], None]] = {
    "socket_filter": _load_plain("SOCKET_FILTER"),
    "kprobe": _load_plain("KPROBE"),
    "tracepoint": _load_plain("TRACEPOINT"),
    "perf_event": _load_plain("PERF_EVENT"),
    "syscall": _load_plain("SYSCALL"),
    "raw_tracepoint": lambda: load_raw_tracepoint(_QUIET_TRACEPOINT),
    "raw_tracepoint_writable": _load_plain("RAW_TRACEPOINT_WRITABLE"),
}

_BTF_PROGRAMS: Mapping[str, tuple[str, Callable[[Btf], int | None]]] = {
    "tp_btf": ("BPF_TRACE_RAW_TP", lambda btf: btf.find_tracepoint(_QUIET_TRACEPOINT)),
    "fentry": ("BPF_TRACE_FENTRY", lambda btf: btf.find_function("vfs_fsync_range")),
    "fexit": ("BPF_TRACE_FEXIT", lambda btf: btf.find_function("vfs_fsync_range")),
    "iter": ("BPF_TRACE_ITER", lambda btf: btf.find_function("bpf_iter_task")),
    "lsm": ("BPF_LSM_MAC", lambda btf: btf.find_function("bpf_lsm_path_chroot")),
}


def probe_program(need: Need, context: ProbeContext) -> Probe:
    """Answer `bpf_prog:tp_btf` by loading the smallest program of that type, attached where the type attaches itself.

    A kprobe, tracepoint or perf_event program attaches through an event, which is a requirement of its own.
    """
    what = f"eBPF program type {need.argument}"
    if need.argument in _PROGRAMS:
        load = _PROGRAMS[need.argument]
    elif need.argument in _BTF_PROGRAMS:
        attach_type, find = _BTF_PROGRAMS[need.argument]
        try:
            identifier = find(read_kernel_btf(context.sysroot))
        except (OSError, ValueError) as error:
            return Probe(State.MISSING, f"the {what} takes the kernel's type information, and there is none: {error}")
        if identifier is None:
            return Probe(State.MISSING, f"this kernel has nothing that the {what} attaches to")

        def load() -> None:
            load_tracing(attach_type, identifier)
    else:
        return Probe(State.UNKNOWN, f"this build knows no {what}")
    try:
        load()
    except OSError as error:
        return compute_answer(what, error)
    return AVAILABLE


def probe_uprobe_multi(_need: Need, _context: ProbeContext) -> Probe:
    """Answer whether one link holds many uprobes (Linux 6.6), by linking to a file that does not exist.

    A kernel that has it looks for the file (ENOENT); another refuses the link before (EINVAL). Without the capability
    to load the program nothing is known.
    """
    try:
        program = _load("KPROBE", "OMN_BPF_TRACE_UPROBE_MULTI")
    except OSError as error:
        if error.errno in PERMISSION:
            return Probe(State.UNKNOWN, refuse_permission("loading the program that asks", "bpf", error).reason)
        return Probe(State.MISSING, "this kernel links no several uprobes at once (Linux 6.6 does)")
    try:
        os.close(calls.link_uprobe_multi(program, "/nonexistent/omn", [0]))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return AVAILABLE
        if error.errno in PERMISSION:
            return Probe(State.UNKNOWN, refuse_permission("linking several uprobes", "perfmon", error).reason)
        return Probe(State.MISSING, f"this kernel links no several uprobes at once ({error.strerror})")
    finally:
        os.close(program)
    return Probe(State.UNKNOWN, "the kernel linked uprobes to a file that does not exist")
