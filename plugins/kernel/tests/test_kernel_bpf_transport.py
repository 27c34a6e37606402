"""Records that programs write, each delivered once or counted as lost: by a ring buffer, and by perf events."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.bpf.assembly import Assembly
from omn_kernel.bpf.attaching import attach
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.loading import LoadedProgram, load
from omn_kernel.bpf.registers import R0, R1, R6
from omn_kernel.bpf.transport import PerfArrays, RingBuffer, Transport, compute_room, open_transport
from omn_kernel.native import calls

from omn_core.api import MachineRefused

RECORD = np.dtype([("ns", np.uint64), ("task", np.uint64), ("cpu", np.uint64)])
CALLS = 1_000_000
GETPPID = 110 if os.uname().machine == "x86_64" else 173
TRANSPORTS = [RingBuffer, PerfArrays]


def make_program(transport: Transport) -> Assembly:
    """Make a program on sys_enter that writes a record of each getppid(2) of this process."""
    program = Assembly("write_records")
    record = program.reserve(RECORD)
    program.move(R6, R1)
    program.load(R0, R6, 8, 8)
    program.jump_if(R0, "!=", GETPPID, "done")
    program.call("get_current_pid_tgid")
    program.set(record, "task", R0)
    program.compute(R0, ">>=", 32)
    program.jump_if(R0, "!=", os.getpid(), "done")
    program.call("get_smp_processor_id")
    program.set(record, "cpu", R0)
    program.call("ktime_get_ns")
    program.set(record, "ns", R0)
    transport.write(program, record, R6)
    program.label("done")
    program.leave(0)
    return program


@contextmanager
def running(transport: Transport) -> Iterator[LoadedProgram]:
    """Have the program run at each system call of this machine."""
    hook = RawTracepoint("sys_enter")
    with load(make_program(transport).assemble(), hook) as program, attach(program, hook):
        yield program


def count_skipped(program: LoadedProgram) -> int:
    """Count the runs that the kernel passed over, as it does where a task that runs the program is preempted."""
    return program.read_account().skipped or 0


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> Iterator[Transport]:
    try:
        opened = request.param(RECORD)
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    yield opened
    opened.close()


@pytest.fixture
def each_cpu() -> Iterator[list[int]]:
    """Lend the cpus that this process may run on, and put it back on all of them."""
    allowed = os.sched_getaffinity(0)
    yield sorted(allowed)
    os.sched_setaffinity(0, allowed)


def call(count: int) -> None:
    getppid = os.getppid
    for _ in range(count):
        getppid()


@pytest.mark.spec("KRN-4")
def test_every_record_is_delivered_once(transport: Transport, each_cpu: list[int]) -> None:
    """A million calls on all cpus in turn, drained meanwhile: all of them, in the order of their stamps, none lost."""
    parts = []
    with running(transport) as program:
        for turn in range(50):
            os.sched_setaffinity(0, {each_cpu[turn % len(each_cpu)]})
            call(CALLS // 50)
            parts.append(transport.drain())
        parts.append(transport.drain())
        skipped = count_skipped(program)
    records = transport.decode(parts)
    assert transport.lost.read_count() == 0
    assert CALLS - skipped <= len(records) <= CALLS
    assert np.all(records["ns"][1:] > records["ns"][:-1])
    assert np.unique(records["cpu"]).tolist() == each_cpu
    assert np.all(records["task"] >> np.uint64(32) == os.getpid())


@pytest.mark.spec("KRN-4")
def test_records_that_find_no_room_are_counted(transport: Transport) -> None:
    """A million calls and a reader that is stopped: what is delivered and what is lost are all that were made."""
    with running(transport) as program:
        call(CALLS)
        kept = transport.decode([transport.drain()])
        lost = transport.lost.read_count()
        assert lost > 0
        assert CALLS - count_skipped(program) <= len(kept) + lost <= CALLS
        call(10)
        skipped = count_skipped(program)
    assert 10 - skipped <= len(transport.decode([transport.drain()])) <= 10
    assert transport.lost.read_count() == lost


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize("kind", TRANSPORTS)
def test_a_closed_transport_leaves_nothing(kind: type[Transport]) -> None:
    """No descriptor and no mapping, however far it came."""

    def list_held() -> tuple[list[str], int]:
        maps = Path("/proc/self/maps").read_text().splitlines()
        return sorted(os.listdir("/proc/self/fd")), sum("bpf" in line or "perf_event" in line for line in maps)

    before = list_held()
    for _ in range(3):
        try:
            opened = kind(RECORD)
        except MachineRefused as refused:
            pytest.skip(refused.reason)
        assert list_held()[1] > before[1]
        opened.close()
        assert list_held() == before


def test_a_kernel_without_ring_buffers_takes_perf_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before 5.8, and as 5.10 refuses one that the limit of locked memory has no room for."""
    try:
        open_transport(RECORD).close()
    except MachineRefused as refused:
        pytest.skip(refused.reason)
    monkeypatch.setattr(calls, "constant", lambda name, real=calls.constant: None if "RINGBUF" in name else real(name))
    opened = open_transport(RECORD)
    assert isinstance(opened, PerfArrays)
    opened.close()


def test_without_either_both_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What refused the ring buffer, and what refused the other."""
    monkeypatch.setattr(
        calls, "constant", lambda name, real=calls.constant: None if "_MAP_TYPE_" in name else real(name)
    )
    with pytest.raises(MachineRefused, match="'lost' cannot be made"):
        open_transport(RECORD)


@pytest.mark.parametrize(("cpus", "room"), [(1, 1 << 22), (2, 1 << 22), (16, 1 << 22), (24, 1 << 21), (4096, 1 << 16)])
def test_the_room_of_a_cpu_shrinks_where_there_are_many(cpus: int, room: int) -> None:
    """A power of two always, and whole pages."""
    assert compute_room(cpus) == room
    assert room % mmap.PAGESIZE == 0


def test_a_record_begins_with_its_stamp() -> None:
    """Nothing else tells in which order records of several cpus came."""
    with pytest.raises(ValueError, match="begins with its stamp"):
        RingBuffer(np.dtype([("task", np.uint64)]))
