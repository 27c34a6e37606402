"""Rows emptied while programs add to them: nothing lost, nothing counted twice; and kernels that let nobody wait."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.bpf import drains
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.attaching import attach
from omn_kernel.bpf.drains import SwappedRows
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.loading import LoadedProgram, load
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import compute_sums
from omn_kernel.bpf.registers import R0, R1

from omn_core.api import MachineRefused

GETPPID = 110 if os.uname().machine == "x86_64" else 173
SWAPS = 200
KEY = np.dtype([("tgid", np.uint32)])
ROW = np.dtype([("calls", np.uint64)])


def make_program(rows: SwappedRows, processes: list[int]) -> Assembly:
    """Make a program on sys_enter that adds one to its process's row at each getppid(2) of some."""
    program = Assembly("count_calls")
    key = program.reserve(KEY)
    empty = program.reserve(ROW)
    program.load(R0, R1, 8, 8)
    program.jump_if(R0, "!=", GETPPID, "done")
    program.call("get_current_pid_tgid")
    program.compute(R0, ">>=", 32)
    program.set(key, "tgid", R0)
    for process in processes:
        program.jump_if(R0, "==", process, "ours")
    program.jump("done")
    program.label("ours")
    program.clear(empty)
    rows.find_or_make(program, key, empty)
    with program.when(R0, "!=", 0):
        program.move(R1, 1)
        program.add_to(Record(R0, rows.rows.value), "calls", R1)
    program.label("done")
    program.leave(0)
    return program


@contextmanager
def running(rows: SwappedRows, processes: list[int]) -> Iterator[LoadedProgram]:
    """Have the program run at each system call of this machine."""
    hook = RawTracepoint("sys_enter")
    with load(make_program(rows, processes).assemble(), hook) as program, attach(program, hook):
        yield program


class Counters:
    """Two processes that call getppid(2), and say how often, from when they are let go until they are stopped."""

    def __init__(self) -> None:
        self.shared = mmap.mmap(-1, 64)
        self.processes = [self._start(place) for place in (8, 16)]

    def _start(self, place: int) -> int:
        process = os.fork()
        if process == 0:
            while not self.shared[0]:
                os.sched_yield()
            made, getppid = 0, os.getppid
            while not self.shared[1]:
                for _ in range(1000):
                    getppid()
                made += 1000
            self.shared[place : place + 8] = struct.pack("=Q", made)
            os._exit(0)
        return process

    def go(self) -> None:
        self.shared[0] = 1

    def finish(self) -> dict[int, int]:
        """Stop them and return how often each called, by its process."""
        self.shared[0] = self.shared[1] = 1
        for process in self.processes:
            os.waitpid(process, 0)
        made = struct.unpack("=QQ", self.shared[8:24])
        return dict(zip(self.processes, made, strict=True))


@pytest.fixture
def counters() -> Iterator[Counters]:
    running = Counters()
    yield running
    for process in running.processes:
        try:
            os.kill(process, 9)
            os.waitpid(process, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize("kind", [MapType.HASH, MapType.PERCPU_HASH])
def test_rows_drained_while_programs_count_are_whole(kind: MapType, counters: Counters) -> None:
    """Two processes count on, over two hundred drains: what was drained is what each made, to the call."""
    try:
        rows = SwappedRows(kind, "rows", KEY, ROW, 16)
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    with running(rows, counters.processes) as program:
        counters.go()
        drained = [rows.take() for _ in range(SWAPS if kind is MapType.HASH else SWAPS // 10)]
        made = counters.finish()
        drained.append(rows.take())
        skipped = program.read_account().skipped or 0
    rows.close()
    counted = dict.fromkeys(counters.processes, 0)
    for part in drained:
        values = compute_sums(part.values) if kind.is_per_cpu else part.values
        for process, count in zip(part.keys["tgid"].tolist(), values["calls"].tolist(), strict=True):
            counted[process] += count
    assert all(made[process] - skipped <= count <= made[process] for process, count in counted.items())
    assert sum(len(part) > 0 for part in drained) > len(drained) // 2
    assert min(made.values()) > 0


def test_a_program_writes_to_the_map_in_the_slot() -> None:
    """A drain exchanges the two, and what was drained is empty when its turn comes again."""
    try:
        rows = SwappedRows(MapType.HASH, "rows", KEY, ROW, 4)
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    first, slot = rows.rows, int(rows.slot.find(0))
    first.update((1,), (5,))
    assert rows.take().values["calls"].tolist() == [5]
    assert rows.rows is not first
    assert int(rows.slot.find(0)) != slot
    assert len(rows.take()) == 0
    assert rows.rows is first
    assert int(rows.slot.find(0)) == slot
    rows.close()


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize(("number", "said"), [(errno.EINVAL, "without nohz_full"), (errno.ENOSYS, "built without")])
def test_a_kernel_that_lets_nobody_wait_is_refused(monkeypatch: pytest.MonkeyPatch, number: int, said: str) -> None:
    """Before anything is made: no interval stands in for the wait."""

    class Withdrawn:
        def omn_grace_query(self) -> int:
            return -number

    monkeypatch.setattr(drains, "lib", Withdrawn())
    before = os.listdir("/proc/self/fd")
    with pytest.raises(MachineRefused, match="membarrier") as caught:
        SwappedRows(MapType.HASH, "rows", KEY, ROW, 4)
    assert said in f"{caught.value.reason} {caught.value.remedy}"
    assert os.listdir("/proc/self/fd") == before


def test_closed_rows_leave_no_descriptor() -> None:
    """Both maps and the slot, also where the second of them was refused."""
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    try:
        SwappedRows(MapType.HASH, "rows", KEY, ROW, 4).close()
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
    with pytest.raises(MachineRefused):
        SwappedRows(MapType.STACK_TRACE, "rows", np.uint32, np.uint8, 4)
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before


@pytest.mark.spec("KRN-4")
def test_calls_of_a_row_that_has_no_room_are_counted() -> None:
    """Five callers and two rows: what stands in these and what is counted as lost are all that was made."""
    try:
        rows = SwappedRows(MapType.HASH, "rows", KEY, ROW, 2)
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    shared = mmap.mmap(-1, 64)
    processes = []
    for _ in range(5):
        process = os.fork()
        if process == 0:
            while not shared[0]:
                os.sched_yield()
            for _ in range(100):
                os.getppid()
            os._exit(0)
        processes.append(process)
    with running(rows, processes) as program:
        shared[0] = 1
        for process in processes:
            os.waitpid(process, 0)
        skipped = program.read_account().skipped or 0
    taken, lost = rows.take().values["calls"], rows.lost.read_count()
    rows.close()
    assert len(taken) == 2
    assert 300 - skipped <= lost <= 300
    assert 500 - skipped <= taken.sum() + lost <= 500
