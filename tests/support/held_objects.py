"""The eBPF objects that a process holds, and whether the kernel still has them."""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import TypeAlias

from omn_kernel.native import calls
from omn_kernel.native._calls import lib

Objects: TypeAlias = frozenset[tuple[str, int]]
"""Programs, maps and links, each by its kind and the kernel's number for it, which no later one is given soon."""

_NEXT = {
    "prog": lib.BPF_PROG_GET_NEXT_ID,
    "map": lib.BPF_MAP_GET_NEXT_ID,
    "link": lib.BPF_LINK_GET_NEXT_ID,
}
_PATIENCE_S = 20


def list_held(pid: int) -> Objects:
    """List what a process holds descriptors of (/proc/<pid>/fdinfo); nothing once it is gone."""
    found: set[tuple[str, int]] = set()
    try:
        paths = list(Path(f"/proc/{pid}/fdinfo").iterdir())
    except OSError:
        return frozenset()
    for path in paths:
        try:
            text = path.read_text()
        except OSError:
            continue
        found |= {
            (kind, int(number)) for kind, number in re.findall(r"^(prog|map|link)_id:\t(\d+)$", text, re.MULTILINE)
        }
    return frozenset(found)


def list_all() -> Objects:
    """List what the kernel has, of everybody's, as `bpftool prog`, `map` and `link` do."""
    return frozenset((kind, number) for kind in _NEXT for number in _list_numbers(kind))


def _list_numbers(kind: str) -> list[int]:
    numbers: list[int] = []
    attributes = calls.make_attributes(start_id=0)
    while True:
        try:
            calls.bpf(_NEXT[kind], attributes)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return numbers
            raise
        numbers.append(int(attributes.next_id))
        attributes.start_id = attributes.next_id


def wait_until_gone(objects: Objects) -> Objects:
    """Wait until the kernel has none of these, which it lets go of after a grace period. Returns what stays."""
    deadline = time.monotonic() + _PATIENCE_S
    while (left := objects & list_all()) and time.monotonic() < deadline:
        os.sched_yield()
        time.sleep(0.01)
    return left
