"""The native calls with Python's manners: descriptors returned, errors raised as OSError."""

from __future__ import annotations

import os

from omn_kernel.native._calls import ffi, lib


def _check(returned: int) -> int:
    if returned < 0:
        raise OSError(-returned, os.strerror(-returned))
    return returned


def constant(name: str) -> int | None:
    """Find a constant of the kernel's headers by its name, None where the build had no such name."""
    value = getattr(lib, name, None)
    return None if value is None else int(value)


def create_map(
    kind: int,
    key_size: int,
    value_size: int,
    entries: int,
    flags: int = 0,
    *,
    btf: int = -1,
    key_id: int = 0,
    value_id: int = 0,
    inner: int = -1,
) -> int:
    """Create an eBPF map and return its descriptor. See bpf(2); raises OSError as it does."""
    return _check(lib.omn_bpf_map_create(kind, key_size, value_size, entries, flags, btf, key_id, value_id, inner))


def load_btf(content: bytes) -> int:
    """Load type information and return its descriptor. Raises OSError as bpf(2) does."""
    return _check(lib.omn_bpf_btf_load(content, len(content)))


def load_program(kind: int, attach_type: int = 0, attach_id: int = 0) -> int:
    """Load the program that returns zero and return its descriptor. Raises OSError as bpf(2) does."""
    return _check(lib.omn_bpf_program_load(kind, attach_type, attach_id))


def open_raw_tracepoint(program: int, name: str | None = None) -> int:
    """Attach a program to a raw tracepoint, or to what it was loaded for. The link ends when it is closed."""
    text = ffi.NULL if name is None else ffi.new("char[]", name.encode())
    return _check(lib.omn_bpf_raw_tracepoint_open(text, program))


def link_uprobe_multi(program: int, path: str) -> int:
    """Link a uprobe_multi program to the start of a file. Raises OSError as bpf(2) does."""
    return _check(lib.omn_bpf_uprobe_multi_link(path.encode(), program))


def link_iterator(program: int) -> int:
    """Link an iterator program. Raises OSError as bpf(2) does."""
    return _check(lib.omn_bpf_iter_link(program))


def enter_network(namespace: int) -> None:
    """Move the calling thread alone into a network namespace, by its descriptor. Raises OSError as setns(2) does."""
    _check(lib.omn_enter_network(namespace))
