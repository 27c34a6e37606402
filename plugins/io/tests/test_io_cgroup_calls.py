"""Calls on files of a cgroup's processes, told by programs on either kind of tracepoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cgroup_programs import ask_of_cgroup, has_all, read_count
from event_backends import needs_records

from omn_core.testing.fixtures import Command

WORK = """
descriptor = os.open(sys.executable, os.O_RDONLY)
for _ in range(20): os.pread(descriptor, 100, 0)
for _ in range(5): os.fsync(descriptor)
"""
READS = "op == 'pread64'"
ASKED: list[dict[str, Any]] = [
    {"source": "io.syscall", "mode": "trace", "emits": ["raw"], "filter": READS},
    {"source": "io.syscall", "mode": "count", "emits": ["count"], "filter": READS},
    {"source": "io.fsync", "mode": "trace", "emits": ["raw"]},
]


@needs_records
@pytest.mark.usefixtures("loads_typed_programs")
@pytest.mark.spec("KRN-5", "IO-2")
def test_a_cgroup_has_the_calls_of_its_processes(omn: Command, make_cgroup: Callable[[str], Path]) -> None:
    """Two cgroups of three that do the same: to the call and to the byte, by the kernel's types and without them."""
    for reads, sums, syncs in zip(*ask_of_cgroup(omn, make_cgroup, WORK, ASKED), strict=True):
        assert has_all(reads, len(reads["raw"]), made=2 * 20)
        assert has_all(sums, read_count(sums) // 100, made=2 * 20)
        assert has_all(syncs, len(syncs["raw"]), made=2 * 5)
