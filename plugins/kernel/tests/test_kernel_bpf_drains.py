"""Rows emptied while programs add to them: nothing lost, nothing counted twice; and kernels that let nobody wait."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.bpf import drains
from omn_kernel.bpf.drains import SwappedRows
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import compute_sums
from omn_kernel.native import calls

from omn_core.api import MachineRefused

GETPPID = 110 if os.uname().machine == "x86_64" else 173
SWAPS = 200


def encode(*instructions: tuple[int, int, int, int, int]) -> bytes:
    """Encode instructions of opcode, destination, source, offset and number."""
    return b"".join(
        struct.pack("=BBhi", code, target | source << 4, offset, number)
        for code, target, source, offset, number in instructions
    )


def make_program(rows: SwappedRows, processes: list[int]) -> bytes:
    """Make a program on sys_enter that adds one to its process's row at each getppid(2) of some."""
    key, slot_key, value = -8, -12, -24
    take = [(0xBF, 6, 1, 0, 0), (0x85, 0, 0, 0, 14), (0x77, 0, 0, 0, 32), (0x63, 10, 0, key, 0)]
    find = [(0xBF, 1, 7, 0, 0), (0xBF, 2, 10, 0, 0), (0x07, 2, 0, 0, key), (0x85, 0, 0, 0, 1)]
    add = [(0xB7, 1, 0, 0, 1), (0xDB, 0, 1, 0, 0)]
    slot = [(0x62, 10, 0, slot_key, 0), (0x18, 1, 1, 0, rows.slot.descriptor), (0, 0, 0, 0, 0)]
    slot += [(0xBF, 2, 10, 0, 0), (0x07, 2, 0, 0, slot_key), (0x85, 0, 0, 0, 1)]
    make = [(0x7A, 10, 0, value, 0), (0xBF, 1, 7, 0, 0), (0xBF, 2, 10, 0, 0), (0x07, 2, 0, 0, key)]
    make += [(0xBF, 3, 10, 0, 0), (0x07, 3, 0, 0, value), (0xB7, 4, 0, 0, 1), (0x85, 0, 0, 0, 2)]
    body = [*slot, (0x15, 0, 0, 0, 0), (0xBF, 7, 0, 0, 0), *find, (0x55, 0, 0, len(make) + len(find) + 1, 0)]
    body += [*make, *find, (0x15, 0, 0, len(add), 0), *add]
    at = body.index((0x15, 0, 0, 0, 0))
    body[at] = (0x15, 0, 0, len(body) - at - 1, 0)
    number = [(0x79, 1, 6, 8, 0), (0x55, 1, 0, len(body), GETPPID)]
    first, second = processes
    test = [(0x15, 0, 0, 1, first), (0x55, 0, 0, len(body) + len(number), second)]
    return encode(*take, *test, *number, *body, (0xB7, 0, 0, 0, 0), (0x95, 0, 0, 0, 0))


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
        rows = SwappedRows(kind, "rows", np.uint32, np.uint64, 16)
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    content = make_program(rows, counters.processes)
    program = calls.load_program(calls.constant("BPF_PROG_TYPE_RAW_TRACEPOINT") or 0, content)
    link = calls.open_raw_tracepoint(program, "sys_enter")
    counters.go()
    drained = [rows.take() for _ in range(SWAPS if kind is MapType.HASH else SWAPS // 10)]
    made = counters.finish()
    drained.append(rows.take())
    os.close(link)
    os.close(program)
    rows.close()
    counted = dict.fromkeys(counters.processes, 0)
    for part in drained:
        values = compute_sums(part.values) if kind.is_per_cpu else part.values
        for process, count in zip(part.keys.tolist(), values.tolist(), strict=True):
            counted[process] += count
    assert counted == made
    assert sum(len(part) > 0 for part in drained) > len(drained) // 2
    assert min(made.values()) > 0


def test_a_program_writes_to_the_map_in_the_slot() -> None:
    """A drain exchanges the two, and what was drained is empty when its turn comes again."""
    try:
        rows = SwappedRows(MapType.HASH, "rows", np.uint32, np.uint64, 4)
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    first, slot = rows.rows, int(rows.slot.find(0))
    first.update(1, 5)
    assert rows.take().values.tolist() == [5]
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
        SwappedRows(MapType.HASH, "rows", np.uint32, np.uint64, 4)
    assert said in f"{caught.value.reason} {caught.value.remedy}"
    assert os.listdir("/proc/self/fd") == before


def test_closed_rows_leave_no_descriptor() -> None:
    """Both maps and the slot, also where the second of them was refused."""
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    try:
        SwappedRows(MapType.HASH, "rows", np.uint32, np.uint64, 4).close()
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
    with pytest.raises(MachineRefused):
        SwappedRows(MapType.STACK_TRACE, "rows", np.uint32, np.uint8, 4)
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
