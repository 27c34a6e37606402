"""Inodes that the page cache writes back, one by one: how many pages, why, and on whose behalf.

A kernel worker writes back for work that somebody queued (sync(2), reclaim, a full file system), or that it finds to do
itself (old pages, too many of them). Who queues work is kept under it until a worker begins it, and then with that
worker: an inode that is written meanwhile belongs to who asked. One that is written outside of any work belongs to the
task that writes it, as what closes or syncs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.open_files import OpenFiles
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tasks import TaskFields

MOST_WORKS = 1 << 10
"""For how many works that no worker has begun is kept who queued them; the oldest give way."""
NO_WORK = 0xFFFFFFFF
"""The reason of what is written outside of any work."""
_WORK = np.dtype([("work", "u8")])


def make_state(fields: TaskFields) -> np.dtype[Any]:
    """Make the type of what is kept of a task that writes back: its work, and of whom that is."""
    return np.dtype([("work", "u8"), ("began_ns", "u8"), ("reason", "u4"), *fields.layout], align=True)


def make_layout(fields: TaskFields, files: OpenFiles) -> list[tuple[str, str]]:
    """Make the fields of a record of an inode that was written back."""
    return [("began_ns", "u8"), ("pages", "i8"), ("reason", "u4"), ("pad", "u4"), *files.layout, *fields.layout]


class Writebacks:
    """Writes the programs. `states` keeps tasks that write back, with `make_state`."""

    def __init__(self, fields: TaskFields, files: OpenFiles, states: TaskStates) -> None:
        self._fields = fields
        self._files = files
        self._states = states
        self._works = Map(MapType.LRU_HASH, "works", _WORK, states.state, MOST_WORKS)

    def close(self) -> None:
        """Let go of the map."""
        self._works.close()

    def load(
        self,
        collector: ProgramCollector,
        record: np.dtype[Any],
        hand_over: Callable[[KernelAssembly, Record], None],
    ) -> None:
        """Load the programs, the last of a writeback first: none is seen to begin without its end.

        `hand_over` emits what becomes of a record; R6 has the context then.
        """
        for program, hook in self._states.write_programs(collector.types):
            collector.programs.load(program, hook)
        written = "writeback_single_inode"
        collector.load_tracepoint(written, lambda program: self._write_inode(program, record, hand_over))
        collector.load_tracepoint(f"{written}_start", self._write_inode_start)
        collector.load_tracepoint("writeback_written", self._write_written)
        collector.load_tracepoint("writeback_start", self._write_start)
        collector.load_tracepoint("writeback_exec", self._write_exec)
        collector.load_tracepoint("writeback_queue", self._write_queue)

    def _write_queue(self, program: KernelAssembly) -> None:
        """Write writeback_queue(wb, work), which whoever asks for it runs."""
        program.move(R6, R1)
        program.point_to_current(R7)
        work, asked = program.reserve(_WORK), program.reserve(self._states.state)
        program.clear(asked)
        program.read_argument(R1, R6, 1)
        program.set(work, "work", R1)
        program.set(asked, "work", R1)
        self._fields.write(program, asked, R7)
        program.update(self._works, work, asked)
        program.leave(0)

    def _write_exec(self, program: KernelAssembly) -> None:
        """Write writeback_exec(wb, work), where a worker takes up what was queued."""
        program.move(R6, R1)
        program.point_to_current(R7)
        work, begun = program.reserve(_WORK), program.reserve(self._states.state)
        program.read_argument(R1, R6, 1)
        program.set(work, "work", R1)
        program.look_up(self._works, work)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        asked = Record(R8, self._states.state)
        program.clear(begun)
        self._fields.copy(program, begun, asked)
        program.get(R1, asked, "work")
        program.set(begun, "work", R1)
        self._states.put(program, R7, begun)
        program.delete(self._works, work)
        program.label("done")
        program.leave(0)

    def _write_start(self, program: KernelAssembly) -> None:
        """Write writeback_start(wb, work), which begins each round of a work, whether anybody queued that or not."""
        program.move(R6, R1)
        program.point_to_current(R7)
        program.read_argument(R9, R6, 1)
        self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "own")
        program.move(R8, R0)
        state = Record(R8, self._states.state)
        program.get(R1, state, "work")
        program.jump_if(R1, "!=", R9, "own")
        program.read_field(R1, R9, "wb_writeback_work", "reason")
        program.set(state, "reason", R1)
        program.jump("done")
        program.label("own")
        begun = program.reserve(self._states.state)
        program.clear(begun)
        program.set(begun, "work", R9)
        program.read_field(R1, R9, "wb_writeback_work", "reason")
        program.set(begun, "reason", R1)
        self._fields.write(program, begun, R7)
        self._states.put(program, R7, begun)
        program.label("done")
        program.leave(0)

    def _write_written(self, program: KernelAssembly) -> None:
        """Write writeback_written(wb, work), which ends a round: what the worker writes then is of no work."""
        program.point_to_current(R7)
        self._states.look_up(program, R7)
        with program.when(R0, "!=", 0):
            program.move(R1, NO_WORK)
            program.set(Record(R0, self._states.state), "reason", R1)
        program.leave(0)

    def _write_inode_start(self, program: KernelAssembly) -> None:
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

    def _write_inode(
        self, program: KernelAssembly, layout: np.dtype[Any], hand_over: Callable[[KernelAssembly, Record], None]
    ) -> None:
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
        self._fields.copy(program, record, state)
        program.read_argument(R9, R6, 2)
        program.read_argument(R1, R6, 1)
        program.read_field(R1, R1, "writeback_control", "nr_to_write")
        program.compute(R9, "-=", R1)
        program.set(record, "pages", R9)
        program.read_argument(R8, R6, 0)
        self._files.write_inode(program, record)
        read_clock(program, R0)
        program.set(record, "ns", R0)
        hand_over(program, record)
        program.label("done")
        program.leave(0)
