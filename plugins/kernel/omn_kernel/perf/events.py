"""The events that the kernel names itself, and what raises each: the program's code, the kernel's, or a clock."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from omn_kernel.native._perf import lib


class Raised(enum.Enum):
    """Whose code an event happens in, which decides what is left of it where the kernel's own is not counted.

    `PROGRAM`: in the program's too, so that a part is left. `KERNEL`: in the kernel's alone, so that nothing is.
    `CLOCK`: nowhere, so that all of it is: a count of a clock does not ask what ran.
    """

    PROGRAM = "program"
    KERNEL = "kernel"
    CLOCK = "clock"


@attrs.frozen(repr=False)
class PerfEvent:
    """One event: the number of its unit and its own, how a sentence spells it, and what raises it."""

    kind: int
    config: int
    spelling: str
    raised: Raised = Raised.PROGRAM

    @property
    def is_software(self) -> bool:
        """Whether the kernel counts it itself: on no unit, so that it never waits for a place on one."""
        return self.kind == lib.PERF_TYPE_SOFTWARE


SOFTWARE: Mapping[str, int] = {
    "cpu-clock": 0,
    "task-clock": 1,
    "page-faults": 2,
    "context-switches": 3,
    "cpu-migrations": 4,
    "minor-faults": 5,
    "major-faults": 6,
    "alignment-faults": 7,
    "emulation-faults": 8,
    "dummy": 9,
    "bpf-output": 10,
    "cgroup-switches": 11,
}
"""enum perf_sw_ids of <linux/perf_event.h>, by the names perf lists them under."""

HARDWARE: Mapping[str, int] = {
    "cycles": 0,
    "instructions": 1,
    "cache-references": 2,
    "cache-misses": 3,
    "branches": 4,
    "branch-misses": 5,
    "bus-cycles": 6,
    "stalled-cycles-frontend": 7,
    "stalled-cycles-backend": 8,
    "ref-cycles": 9,
}
"""enum perf_hw_id of <linux/perf_event.h>, by the names perf lists them under."""

_RAISED = {
    **dict.fromkeys(("context-switches", "cpu-migrations", "cgroup-switches", "bpf-output", "dummy"), Raised.KERNEL),
    **dict.fromkeys(("cpu-clock", "task-clock"), Raised.CLOCK),
}


def find_event(group: str, name: str) -> PerfEvent | None:
    """Find an event of the groups `sw` and `hw` by its name, None where the kernel names none so."""
    if group == "sw" and name in SOFTWARE:
        raised = _RAISED.get(name, Raised.PROGRAM)
        return PerfEvent(lib.PERF_TYPE_SOFTWARE, SOFTWARE[name], f"software event {name}", raised)
    if group == "hw" and name in HARDWARE:
        return PerfEvent(lib.PERF_TYPE_HARDWARE, HARDWARE[name], f"hardware event {name}")
    return None


def get_event(spelled: str) -> PerfEvent:
    """Return an event by its spelling, `sw:page-faults`. Raises ValueError where the kernel names none so."""
    group, _, name = spelled.partition(":")
    event = find_event(group, name)
    if event is None:
        raise ValueError(f"the kernel names no perf event {spelled!r}")
    return event
