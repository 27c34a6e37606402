"""What the scheduler's tracepoints tell of a cgroup, by the kernel's types and by records of the task that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cgroup_programs import ask_of_cgroup, has_all
from event_backends import needs_records

from omn_core.testing.fixtures import Command

WORK = """
import _thread
lock = _thread.allocate_lock()
lock.acquire()
for _ in range(20): lock.acquire(timeout=0.001)
"""
ASKED: list[dict[str, Any]] = [
    {"source": "sched.futex", "mode": "trace", "emits": ["raw"]},
    {"source": "sched.offcpu", "mode": "trace", "emits": ["raw"]},
    {"source": "sched.switches", "mode": "trace", "emits": ["raw"]},
    {"source": "sched.lock", "mode": "trace", "emits": ["raw"]},
]


@needs_records
@pytest.mark.usefixtures("loads_typed_programs")
@pytest.mark.spec("KRN-5", "SCH-2")
def test_a_cgroup_has_the_waits_of_its_tasks(omn: Command, make_cgroup: Callable[[str], Path]) -> None:
    """Two cgroups of three that do the same: to the wait, and each time off the cpu with the switch that began it."""
    answers = ask_of_cgroup(omn, make_cgroup, WORK, ASKED)
    typed_switches = answers[2][0]["events_seen"]
    for futex, offcpu, switches, _ in zip(*answers, strict=True):
        waits = [row for row in futex["raw"] if row["attrs"]["op"] == "wait-bitset"]
        assert has_all(futex, len(waits), made=2 * 20)
        tasks = {row["key"]["task"] for row in waits}
        assert len(tasks) == 2
        assert {row["key"]["task"] for row in offcpu["raw"]} == {row["key"]["task"] for row in switches["raw"]} == tasks
        # Each task leaves for the last time in a switch that nothing follows.
        assert has_all(offcpu, offcpu["events_seen"], made=typed_switches - len(tasks))
    assert typed_switches >= 2 * (20 + 1)
    for typed, recorded in answers:
        assert has_all(recorded, recorded["events_seen"], made=typed["events_seen"])
