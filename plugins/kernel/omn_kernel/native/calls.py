"""The native calls with Python's manners: descriptors returned, errors raised as OSError."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from omn_kernel.native._calls import ffi, lib

Attributes: TypeAlias = Any
"""A `union bpf_attr`: members are set and read by the names of <linux/bpf.h>, which the compiler laid out."""

_LICENCE = b"GPL\0"
_SIZE = int(ffi.sizeof("union bpf_attr"))


def _check(returned: int) -> int:
    if returned < 0:
        raise OSError(-returned, os.strerror(-returned))
    return returned


def constant(name: str) -> int | None:
    """Find a constant of the kernel's headers by its name, None where the build had no such name."""
    value = getattr(lib, name, None)
    return None if value is None else int(value)


def get_constant(name: str) -> int:
    """Return a constant of the kernel's headers that every build has. Raises KeyError for a name they do not have."""
    value = constant(name)
    if value is None:
        raise KeyError(name)
    return value


def address_of(buffer: Any) -> int:
    """Return where a buffer lies, for a member that is a pointer. Whoever asks keeps the buffer."""
    return int(ffi.cast("uintptr_t", ffi.from_buffer(buffer)))


def make_attributes(**members: int | bytes) -> Attributes:
    """Make the attributes of a bpf(2) command; members not named are zero."""
    attributes = ffi.new("union bpf_attr *")
    for name, value in members.items():
        setattr(attributes, name, value)
    return attributes


def bpf(command: int, attributes: Attributes) -> int:
    """Give the kernel a command with attributes of `make_attributes`, which it may write to. Raises OSError."""
    return _check(lib.omn_bpf(command, attributes, _SIZE))


def create_map(
    kind: int,
    key_size: int,
    value_size: int,
    entries: int,
    flags: int = 0,
    *,
    btf: int = 0,
    key_id: int = 0,
    value_id: int = 0,
    inner: int = 0,
    name: bytes = b"",
) -> int:
    """Create an eBPF map and return its descriptor. See bpf(2); raises OSError as it does.

    `name` is what bpftool lists it by: letters, digits, `_` and `.`, 15 of them at most.
    """
    attributes = make_attributes(
        map_type=kind,
        key_size=key_size,
        value_size=value_size,
        max_entries=entries,
        map_flags=flags,
        btf_fd=btf,
        btf_key_type_id=key_id,
        btf_value_type_id=value_id,
        inner_map_fd=inner,
        map_name=name,
    )
    return bpf(lib.BPF_MAP_CREATE, attributes)


def load_btf(content: bytes) -> int:
    """Load type information and return its descriptor. Raises OSError as bpf(2) does."""
    return bpf(lib.BPF_BTF_LOAD, make_attributes(btf=address_of(content), btf_size=len(content)))


def load_program(
    kind: int,
    instructions: bytes,
    *,
    attach_type: int = 0,
    attach_id: int = 0,
    flags: int = 0,
    name: bytes = b"",
    log: bytearray | None = None,
) -> int:
    """Load a program and return its descriptor. Raises OSError as bpf(2) does.

    `attach_id` is the BTF id of what a tracing program attaches to. The verifier writes to `log` what it followed, up
    to a zero byte; where the log has no room for all of it, that alone is an error (ENOSPC).
    """
    attributes = make_attributes(
        prog_type=kind,
        insns=address_of(instructions),
        insn_cnt=len(instructions) // 8,
        license=address_of(_LICENCE),
        expected_attach_type=attach_type,
        attach_btf_id=attach_id,
        prog_flags=flags,
        prog_name=name,
    )
    if log is not None:
        attributes.log_buf, attributes.log_size, attributes.log_level = address_of(log), len(log), 1
    return bpf(lib.BPF_PROG_LOAD, attributes)


def open_raw_tracepoint(program: int, name: str | None = None) -> int:
    """Attach a program to a raw tracepoint, or to what it was loaded for. The link ends when it is closed."""
    text = ffi.NULL if name is None else ffi.new("char[]", name.encode())
    return _check(lib.omn_bpf_raw_tracepoint_open(text, program))


def run_program(program: int, cpu: int) -> None:
    """Run a program of a raw tracepoint once on a cpu, over whatever that runs (Linux 5.10). Raises OSError."""
    _check(lib.omn_bpf_run_on(program, cpu))


def create_link(program: int, target: int, attach_type: int) -> int:
    """Link a program to a target, 0 for an iterator, which has none. Raises OSError as bpf(2) does."""
    return _check(lib.omn_bpf_link_create(program, target, attach_type))


def link_uprobe_multi(
    program: int,
    path: str,
    offsets: Sequence[int],
    cookies: Sequence[int] = (),
    *,
    pid: int = 0,
    is_return: bool = False,
) -> int:
    """Link a uprobe_multi program to offsets in a file, for one process or (0) whoever maps it.

    A cookie is what the program reads to tell the offsets apart. Raises OSError as bpf(2) does.
    """
    lists = ffi.new("uint64_t[]", list(offsets)), ffi.new("uint64_t[]", list(cookies)) if cookies else ffi.NULL
    places = ffi.new(
        "struct omn_bpf_places *",
        {"offsets": lists[0], "cookies": lists[1], "count": len(offsets), "pid": pid, "is_return": is_return},
    )
    return _check(lib.omn_bpf_uprobe_multi_link(os.fsencode(path), program, places))


@attrs.frozen(repr=False)
class ProgramInformation:
    """What the kernel says of a program: its number, and how long and how often it ran while programs were timed.

    `skipped` is how often it was passed over, None before Linux 5.12, which does not say.
    """

    number: int
    run_time_ns: int
    runs: int
    skipped: int | None


def read_program_information(program: int) -> ProgramInformation:
    """Read what the kernel says of a program. Raises OSError as bpf(2) does."""
    information = ffi.new("struct bpf_prog_info *")
    size = ffi.new("uint32_t *", ffi.sizeof("struct bpf_prog_info"))
    _check(lib.omn_bpf_info(program, information, size))
    says_skipped = size[0] > ffi.offsetof("struct bpf_prog_info", "recursion_misses")
    skipped = int(information.recursion_misses) if says_skipped else None
    return ProgramInformation(information.id, information.run_time_ns, information.run_cnt, skipped)


def enter_network(namespace: int) -> None:
    """Move the calling thread alone into a network namespace, by its descriptor. Raises OSError as setns(2) does."""
    _check(lib.omn_enter_network(namespace))


def find_ended_cpu_ns(pid: int) -> int | None:
    """Find the cpu nanoseconds, by the microsecond, of a child that has ended, with all it waited for; None otherwise.

    The account that comes with a reaping (waitid(2)), read without one.
    """
    used_us: int = lib.omn_read_ended_cpu(pid)
    return None if used_us < 0 else used_us * 1000
