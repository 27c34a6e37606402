"""Inodes that the page cache writes back, one by one: how many pages, why, and on whose behalf.

A kernel worker writes back for work that somebody queued (sync(2), reclaim, a full file system), or that it finds to do
itself (old pages, too many of them). Who queues work is kept under it until a worker begins it, and then with that
worker: an inode that is written meanwhile belongs to who asked. One that is written outside of any work belongs to the
task that writes it, as what closes or syncs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.open_files import OpenFiles
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tasks import TaskFields

MOST_WORKS = 1 << 10
"""For how many works that no worker has begun is kept who queued them; the oldest give way."""
NO_WORK = 0xFFFFFFFF
"""The reason of what is written outside of any work."""
HandOver = Callable[[TaskAssembly, Record], None]
_STATE = [("work", "u8"), ("began_ns", "u8"), ("reason", "u4"), ("is_untold", "u4")]


def make_state(fields: TaskFields) -> np.dtype[Any]:
    """Make the type of what is kept of a task that writes back: its work, and of whom that is, if anybody tells it."""
    return np.dtype([*_STATE, *fields.layout], align=True)


def make_layout(fields: TaskFields, files: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Make the fields of a record of an inode that was written back, those of its file among them."""
    return [("began_ns", "u8"), ("pages", "i8"), ("reason", "u4"), ("is_untold", "u4"), *files, *fields.layout]


class Writebacks(ABC):
    """Writes the programs. `states` keeps tasks that write back, with `make_state`.

    What tells one work from another, and an inode's pages and name, differs with what programs are handed. `work` is
    the type of the former, which has a number under that name.
    """

    work: np.dtype[Any]

    def __init__(self, fields: TaskFields, states: TaskStates) -> None:
        self._fields = fields
        self._states = states
        self._works = Map(MapType.LRU_HASH, "works", self.work, states.state, MOST_WORKS)

    @abstractmethod
    def read_work(self, program: TaskAssembly) -> None:
        """Emit what sets R9 to the number of the work that the tracepoint is passed with, R6 has the context."""

    @abstractmethod
    def read_reason(self, program: TaskAssembly) -> None:
        """Emit what sets R1 to why the work is done whose number R9 has."""

    @abstractmethod
    def set_work(self, program: TaskAssembly, key: Record) -> None:
        """Emit what sets a cleared key to the work whose number R9 has, as it was when it was queued."""

    @abstractmethod
    def tell_shared(self, program: TaskAssembly, key: Record, asked: Record) -> None:
        """Emit what says of a work that is queued (`is_untold`) that another is that cannot be told from it."""

    @abstractmethod
    def read_pages(self, program: TaskAssembly) -> None:
        """Emit what sets R9 to how many pages of an inode were written."""

    @abstractmethod
    def write_file(self, program: TaskAssembly, record: Record) -> None:
        """Emit what sets the fields of a record that tell the inode. R8 and R9 hold nothing after it."""

    def close(self) -> None:
        """Let go of the map."""
        self._works.close()

    def load(
        self,
        collector: ProgramCollector,
        record: np.dtype[Any],
        hand_over: HandOver,
    ) -> None:
        """Load the programs, the last of a writeback first: none is seen to begin without its end.

        `hand_over` emits what becomes of a record; R6 has the context then.
        """
        collector.load_states(self._states)
        written = "writeback_single_inode"
        collector.load_event(written, lambda program: self._write_inode(program, record, hand_over))
        collector.load_event(f"{written}_start", self._write_inode_start)
        collector.load_event("writeback_written", self._write_written)
        collector.load_event("writeback_start", self._write_start)
        collector.load_event("writeback_exec", self._write_exec)
        collector.load_event("writeback_queue", self._write_queue)

    def _write_queue(self, program: TaskAssembly) -> None:
        """Write writeback_queue(wb, work), which whoever asks for it runs."""
        key = self._begin(program)
        asked = program.reserve(self._states.state)
        program.clear(asked)
        program.set(asked, "work", R9)
        self._fields.write(program, asked, R7)
        self.tell_shared(program, key, asked)
        program.update(self._works, key, asked)
        program.leave(0)

    def _write_exec(self, program: TaskAssembly) -> None:
        """Write writeback_exec(wb, work), where a worker takes up what was queued."""
        key = self._begin(program)
        begun = program.reserve(self._states.state)
        program.clear(begun)
        program.set(begun, "work", R9)
        program.set(begun, "is_untold", 1)
        program.look_up(self._works, key)
        with program.when(R0, "!=", 0):
            program.move(R8, R0)
            asked = Record(R8, self._states.state)
            self._fields.copy(program, begun, asked)
            program.get(R1, asked, "is_untold")
            program.set(begun, "is_untold", R1)
        self._states.put(program, R7, begun)
        program.delete(self._works, key)
        program.leave(0)

    def _begin(self, program: TaskAssembly) -> Record:
        """Set R6 to the context, R7 to the task that runs and R9 to the work, and return the key of that."""
        key = program.reserve(self.work)
        program.clear(key)
        program.move(R6, R1)
        program.point_to_current(R7)
        self.read_work(program)
        self.set_work(program, key)
        return key

    def _write_start(self, program: TaskAssembly) -> None:
        """Write writeback_start(wb, work), which begins each round of a work, whether anybody queued that or not."""
        program.move(R6, R1)
        program.point_to_current(R7)
        self.read_work(program)
        self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "own")
        program.move(R8, R0)
        state = Record(R8, self._states.state)
        program.get(R1, state, "work")
        program.jump_if(R1, "!=", R9, "own")
        self.read_reason(program)
        program.set(state, "reason", R1)
        program.jump("done")
        program.label("own")
        begun = program.reserve(self._states.state)
        program.clear(begun)
        program.set(begun, "work", R9)
        self.read_reason(program)
        program.set(begun, "reason", R1)
        self._fields.write(program, begun, R7)
        self._states.put(program, R7, begun)
        program.label("done")
        program.leave(0)

    def _write_written(self, program: TaskAssembly) -> None:
        """Write writeback_written(wb, work), which ends a round: what the worker writes then is of no work."""
        program.point_to_current(R7)
        self._states.look_up(program, R7)
        with program.when(R0, "!=", 0):
            program.move(R1, NO_WORK)
            program.set(Record(R0, self._states.state), "reason", R1)
        program.leave(0)

    def _write_inode_start(self, program: TaskAssembly) -> None:
        """Write writeback_single_inode_start(inode, control, pages)."""
        program.point_to_current(R7)
        self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "outside")
        program.move(R8, R0)
        state = Record(R8, self._states.state)
        program.get(R1, state, "reason")
        program.move(R2, NO_WORK)
        program.jump_if(R1, "==", R2, "outside")
        read_clock(program, R0)
        program.set(state, "began_ns", R0)
        program.jump("done")
        program.label("outside")
        begun = program.reserve(self._states.state)
        program.clear(begun)
        program.move(R1, NO_WORK)
        program.set(begun, "reason", R1)
        self._fields.write(program, begun, R7)
        read_clock(program, R0)
        program.set(begun, "began_ns", R0)
        self._states.put(program, R7, begun)
        program.label("done")
        program.leave(0)

    def _write_inode(self, program: TaskAssembly, layout: np.dtype[Any], hand_over: HandOver) -> None:
        """Write writeback_single_inode(inode, control, pages), where the control has how many pages were left."""
        program.move(R6, R1)
        program.point_to_current(R7)
        state = self._states.find_begun(program, R7, "began_ns", at=R8, began=R1, otherwise="done")
        record = program.reserve(layout)
        program.clear(record)
        program.set(record, "began_ns", R1)
        program.set(state, "began_ns", 0)
        program.get(R1, state, "reason")
        program.set(record, "reason", R1)
        program.get(R1, state, "is_untold")
        program.set(record, "is_untold", R1)
        self._fields.copy(program, record, state)
        self.read_pages(program)
        program.set(record, "pages", R9)
        self.write_file(program, record)
        read_clock(program, R0)
        program.set(record, "ns", R0)
        hand_over(program, record)
        program.label("done")
        program.leave(0)


class TypedWritebacks(Writebacks):
    """Writes the programs by the kernel's types: a work is told by where it lies, an inode by one of its names."""

    work = np.dtype([("work", "u8")])

    def __init__(self, fields: TaskFields, states: TaskStates, files: OpenFiles) -> None:
        super().__init__(fields, states)
        self._files = files

    def read_work(self, program: TaskAssembly) -> None:
        """Read the second argument."""
        program.read_argument(R9, R6, 1)

    def read_reason(self, program: TaskAssembly) -> None:
        """Read it from the work."""
        if isinstance(program, KernelAssembly):
            program.read_field(R1, R9, "wb_writeback_work", "reason")

    def set_work(self, program: TaskAssembly, key: Record) -> None:
        """Set where it lies."""
        program.set(key, "work", R9)

    def tell_shared(self, program: TaskAssembly, key: Record, asked: Record) -> None:
        """Emit nothing: no two works lie at one place."""

    def read_pages(self, program: TaskAssembly) -> None:
        """Read how many there were to write, and how many the control has left."""
        program.read_argument(R9, R6, 2)
        program.read_argument(R1, R6, 1)
        if isinstance(program, KernelAssembly):
            program.read_field(R1, R1, "writeback_control", "nr_to_write")
        program.compute(R9, "-=", R1)

    def write_file(self, program: TaskAssembly, record: Record) -> None:
        """Write one of its names."""
        program.read_argument(R8, R6, 0)
        if isinstance(program, KernelAssembly):
            self._files.write_inode(program, record)
