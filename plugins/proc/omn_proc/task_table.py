"""What is known of tasks from one reading to the next: the cpu time each used, over which time, and since when.

From /proc/<pid>/stat and /proc/<pid>/task/<tid>/stat, see proc(5). Their cpu time is in clock ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from omn_kernel.counters import Misses
from omn_kernel.procfs.task import ENDED, TICK_NS
from omn_kernel.task_files import TaskId

_STATE, _PARENT, _USER_TICKS, _SYSTEM_TICKS, _THREADS, _START = 0, 1, 11, 12, 17, 19
"""Where the fields stand that are read here, counted from the state, which is the file's third."""

_ENDED = frozenset(state.encode() for state in ENDED)


@attrs.define(eq=False)
class Found:
    """One task as one reading found it: its stat file, when that was read, and what was read beside it."""

    task: TaskId
    stat: bytes
    read_ns: int
    resident_bytes: int | None = None
    user: int | None = None


@attrs.define(eq=False)
class TaskRow:
    """What a task used of a cpu: `ticks` in `length_ns`, which is its whole life where it was not read before."""

    found: Found
    comm: bytes
    fields: Sequence[bytes]
    ticks: int
    length_ns: int
    is_first: bool
    age_ns: int

    @property
    def has_ended(self) -> bool:
        """Whether the task is a zombie or dead."""
        return self.fields[_STATE] in _ENDED


@attrs.define(eq=False)
class _Last:
    start: bytes
    ticks: int
    read_ns: int


def parse_task_fields(content: bytes) -> tuple[bytes, list[bytes]]:
    """Parse a stat file into the task's name and the fields from its state on, no number made of any.

    The name may hold any byte, a closing parenthesis among them: the fields start after the last one. Raises
    ValueError for anything else.
    """
    end = content.rfind(b")")
    fields = content[end + 2 :].split(b" ", _START + 1)
    if end < 0 or len(fields) <= _START:
        raise ValueError(f"no stat of a task: {content[:80]!r}")
    return content[content.index(b"(") + 1 : end], fields


class TaskTable:
    """The tasks that were there at the last reading. `ended` counts those that were and are no more.

    What a task used between its last reading and its end is in no row, nor is one that came and ended in between.
    """

    def __init__(self, misses: Misses) -> None:
        self.ended = 0
        self._misses = misses
        self._last: dict[TaskId, _Last] = {}

    def advance(self, reading: Sequence[Found], read_boot_offset: Callable[[], int]) -> list[TaskRow]:
        """Return a row for each task of a reading, but for one whose counters stepped back.

        `read_boot_offset` tells how far the clock that counts from the machine's start, suspended time included, is
        ahead of the run's own, in nanoseconds.
        """
        offset_ns = read_boot_offset()
        last, self._last = self._last, {}
        rows = [self._advance_one(found, last, offset_ns) for found in reading]
        self.ended += len(last)
        return [row for row in rows if row is not None]

    def _advance_one(self, found: Found, before: dict[TaskId, _Last], offset_ns: int) -> TaskRow | None:
        comm, fields = parse_task_fields(found.stat)
        ticks = int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
        start = fields[_START]
        last = before.get(found.task)
        if last is not None and last.start == start:
            del before[found.task]
        else:
            last = None  # its number belonged to another, which stays among those that ended
        self._last[found.task] = _Last(start, ticks, found.read_ns)
        age_ns = max(found.read_ns + offset_ns - int(start) * TICK_NS, TICK_NS)
        if last is None:
            return TaskRow(found, comm, fields, ticks, age_ns, True, age_ns)
        if ticks < last.ticks:
            self._misses.note_step_back("utime and stime", f"task {found.task[1] or found.task[0]}")
            return None
        length_ns = max(found.read_ns - last.read_ns, 1)
        return TaskRow(found, comm, fields, ticks - last.ticks, length_ns, False, age_ns)


def compute_busy(row: TaskRow) -> float:
    """Compute the share of one cpu that a task used."""
    return row.ticks * TICK_NS / row.length_ns


ALWAYS: Mapping[str, Callable[[TaskRow], int | float]] = {
    "busy": compute_busy,
    "oncpu_ns": lambda row: row.ticks * TICK_NS,
    "pid": lambda row: row.found.task[0],
}
"""The attributes of every row."""

WHERE_SHOWN: Mapping[str, Callable[[TaskRow], int | bytes | str | None]] = {
    "since": lambda row: "life" if row.is_first else "poll",
    "age_ns": lambda row: row.age_ns,
    "rss_bytes": lambda row: row.found.resident_bytes,
    "user": lambda row: row.found.user,
    "comm": lambda row: row.comm,
    "state": lambda row: row.fields[_STATE],
    "ppid": lambda row: int(row.fields[_PARENT]),
    "threads": lambda row: int(row.fields[_THREADS]),
}
"""Attributes that a row has where the answer can show them."""
