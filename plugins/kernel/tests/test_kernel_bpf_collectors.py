"""The collectors that families build on: every event once, losses with their reasons, nothing left in the kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pytest
from omn_kernel.bpf import running
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.collecting import ProgramCollector, compute_unseen
from omn_kernel.bpf.columns import Columns
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.loading import Account, LoadedProgram
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.registers import R0, R1, R2, R6
from omn_kernel.bpf.rejections import ProgramRejected
from omn_kernel.bpf.rows import RowCollector
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.polled import read_file
from shapes import make_resolved

from omn_core.api import Batch, BoundTarget, Column, InTargetCost, Losses, MachineRefused, RunContext
from omn_core.model.batch import Names
from omn_core.testing.harness import bind_processes, release

GETPPID = 110 if os.uname().machine == "x86_64" else 173
CALLS = 20_000


def write_filter(program: Assembly, target: BoundTarget) -> None:
    """Write what goes on with the getppid(2) of a process alone."""
    program.load(R0, R1, 8, 8)
    program.jump_if(R0, "!=", GETPPID, "done")
    program.call("get_current_pid_tgid")
    program.compute(R0, ">>=", 32)
    program.jump_if(R0, "!=", target.processes[0].pid, "done")


class Calls(StreamCollector):
    """A record of each call."""

    record = np.dtype([("ns", np.uint64), ("cpu", np.uint32), ("pad", np.uint32)])

    def write_programs(self, target: BoundTarget) -> None:
        program = Assembly("record_calls")
        record = program.reserve(self.record)
        program.move(R6, R1)
        write_filter(program, target)
        program.clear(record)
        program.call("get_smp_processor_id")
        program.set(record, "cpu", R0)
        program.call("ktime_get_ns")
        program.set(record, "ns", R0)
        self.transport.write(program, record, R6)
        program.label("done")
        program.leave(0)
        self.programs.load(program, RawTracepoint("sys_enter"))

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        ones = Column(np.ones(len(records), np.int64))
        return Columns({"cpu": Column(records["cpu"].astype(np.int64))}, {"value": ones})


class WideCalls(Calls):
    """Events that take more room than the records they were."""

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        columns = super().make_columns(records)
        return attrs.evolve(columns, attributes=dict.fromkeys(("value", "a", "b"), columns.attributes["value"]))


class CallRows(RowCollector):
    """The calls on each cpu."""

    key = np.dtype([("cpu", np.uint32)])
    row = np.dtype([("calls", np.uint64)])
    entries = 64

    def write_programs(self, target: BoundTarget) -> None:
        program = Assembly("count_calls")
        key, empty = program.reserve(self.key), program.reserve(self.row)
        write_filter(program, target)
        program.clear(empty)
        program.call("get_smp_processor_id")
        program.set(key, "cpu", R0)
        self.rows.find_or_make(program, key, empty)
        with program.when(R0, "!=", 0):
            program.move(R2, 1)
            program.add_to(Record(R0, self.row), "calls", R2)
        program.label("done")
        program.leave(0)
        self.programs.load(program, RawTracepoint("sys_enter"))

    def make_columns(self, entries: Entries) -> Columns:
        count = entries.values["calls"].astype(np.int64)
        return Columns({"cpu": Column(entries.keys["cpu"].astype(np.int64))}, {"value": Column(count)})


class Broken(Calls):
    """A second program that the verifier rejects."""

    def write_programs(self, target: BoundTarget) -> None:
        super().write_programs(target)
        program = Assembly("broken")
        program.load(R0, R1, 4096, 8)
        program.leave()
        self.programs.load(program, RawTracepoint("sys_exit"))


class Absent(Calls):
    """A second program on a tracepoint that there is not."""

    def write_programs(self, target: BoundTarget) -> None:
        super().write_programs(target)
        program = Assembly("nowhere")
        program.leave(0)
        self.programs.load(program, RawTracepoint("omn_never_was"))


def list_held() -> tuple[list[str], int]:
    """List the descriptors of this process, and count the mappings of maps and events."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sorted(os.listdir("/proc/self/fd")), sum("bpf" in line or "perf_event" in line for line in maps)


@pytest.fixture
def own() -> Iterator[BoundTarget]:
    target = bind_processes(os.getpid())
    yield target
    release(target)


Prepare = Callable[..., None]


@pytest.fixture
def prepare() -> Prepare:
    def prepare_one(collector: ProgramCollector, **changes: Any) -> None:
        context = attrs.evolve(RunContext(Names(), time.monotonic_ns), **changes)
        try:
            collector.prepare(make_resolved(mode="trace"), context)
        except MachineRefused as refused:
            pytest.skip(refused.reason)

    return prepare_one


def call(count: int) -> None:
    getppid = os.getppid
    for _ in range(count):
        getppid()


@pytest.mark.spec("KRN-4", "KRN-8")
def test_a_stream_delivers_each_event_once(own: BoundTarget, prepare: Prepare) -> None:
    """Copied at ticks, decoded at the end; what came after the last tick is there too, and nothing is left open."""
    read_kernel_btf("/")  # stays open for the whole session
    held = list_held()
    collector = Calls()
    prepare(collector)
    collector.attach(own)
    before_ns = time.monotonic_ns()
    call(CALLS)
    assert len(collector.sample(0)) == 0
    call(CALLS)
    after_ns = time.monotonic_ns()
    batch = collector.stop()
    skipped = collector.losses().skipped
    assert 2 * CALLS - skipped <= len(batch) <= 2 * CALLS
    assert collector.losses().dropped == 0
    assert collector.fields() == {"delivered": len(batch)}
    assert before_ns <= batch.ts[0] <= batch.ts[-1] <= after_ns
    assert np.all(np.diff(batch.ts) > 0)
    call(10)
    assert list_held() == held


@pytest.mark.spec("KRN-4")
@pytest.mark.parametrize(("kind", "held"), [(Calls, 1), (WideCalls, 3)])
def test_records_past_the_bound_of_memory_are_counted(
    kind: type[Calls], held: int, own: BoundTarget, prepare: Prepare
) -> None:
    """Undecoded, of which one tick's are held, or decoded, where three ticks' take more room then: all are known."""
    collector = kind()
    room = (8 + kind.record.itemsize) * CALLS * held
    prepare(collector, memory_bytes=room)
    collector.attach(own)
    for _ in range(3):
        call(CALLS)
        collector.sample(0)
    batch, losses = collector.stop(), collector.losses()
    assert 3 * CALLS - losses.skipped <= len(batch) + losses.dropped <= 3 * CALLS
    assert losses.dropped > 0
    assert f"{room} bytes, the bound of one request" in losses.reasons[0]
    assert 0 < batch.nbytes <= room


@pytest.mark.spec("KRN-4")
def test_each_drain_says_what_was_lost_by_it(own: BoundTarget, prepare: Prepare) -> None:
    """A reader that comes late finds how many records found no room meanwhile, once."""
    collector = Calls()
    prepare(collector)
    collector.attach(own)
    call(600_000)
    collector.sample(0)
    call(10)
    batch = collector.stop()
    losses = collector.losses()
    assert len(losses.drains) == 1
    assert losses.drains[0].dropped == losses.dropped > 0
    assert 600_010 - losses.skipped <= len(batch) + losses.dropped <= 600_010


@pytest.mark.spec("SRC-2", "KRN-4")
def test_rows_are_taken_once_each_and_stamped_then(own: BoundTarget, prepare: Prepare) -> None:
    """A row of each drain says what came since the one before; what comes after the last is in none."""
    read_kernel_btf("/")  # stays open for the whole session
    held = list_held()
    collector = CallRows()
    prepare(collector)
    collector.attach(own)
    counts = []
    for turn in range(3):
        call(CALLS * (turn + 1))
        before_ns = time.monotonic_ns()
        batch = collector.sample(0)
        counts.append(int(batch.attributes["value"].values.sum()))
        assert np.all((batch.ts >= before_ns) & (batch.ts <= time.monotonic_ns()))
    call(10)
    assert len(collector.stop()) == 0
    skipped = collector.losses().skipped
    for turn, count in enumerate(counts):
        assert CALLS * (turn + 1) - skipped <= count <= CALLS * (turn + 1)
    assert collector.row_stamp() == "drain"
    assert collector.losses().dropped == 0
    assert list_held() == held


@pytest.mark.spec("CST-1", "CST-2")
@pytest.mark.parametrize("kind", [Calls, CallRows])
def test_what_programs_cost_is_unknown_while_nobody_times_them(
    kind: type[ProgramCollector], own: BoundTarget, prepare: Prepare
) -> None:
    """And known, and more than nothing, where the kernel does."""
    collector = kind()
    prepare(collector)
    collector.attach(own)
    call(100)
    collector.sample(0)
    collector.stop()
    cost = collector.in_target_cost()
    if read_file("/", "/proc/sys/kernel/bpf_stats_enabled").strip() == b"1":
        assert cost.cpu_ns is not None
        assert cost.cpu_ns > 0
    else:
        assert cost == InTargetCost(None)


@pytest.mark.spec("CST-2", "KRN-4")
def test_accounts_of_programs_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times where each is known, runs that were passed over where the kernel counts them."""

    class Stub:
        def __init__(self, account: Account) -> None:
            self.read_account = lambda: account

        def __enter__(self) -> Stub:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing was loaded."""

    def run(*accounts: Account) -> RunningPrograms:
        programs = RunningPrograms()
        for account in accounts:
            monkeypatch.setattr(running, "load", lambda *_, account=account: Stub(account))
            programs.load(Assembly("stub"), RawTracepoint("sys_enter"))
        programs.detach()
        return programs

    both = run(Account(100, 2, 3), Account(50, 1, None))
    assert both.cost == InTargetCost(150)
    assert both.add_skipped(Losses(dropped=1, reasons=("full",))).skipped == 3
    assert both.add_skipped(Losses(reasons=("full",))).reasons == (
        "full",
        "the kernel passed programs over that were running on the cpu already",
    )
    one_unknown = run(Account(100, 2, 0), Account(None, None, 0))
    assert one_unknown.cost == InTargetCost(None)
    assert one_unknown.add_skipped(Losses()) == Losses()


@pytest.mark.parametrize(("kind", "error"), [(Broken, ProgramRejected), (Absent, MachineRefused)])
def test_what_is_refused_half_way_leaves_nothing(
    kind: type[Calls], error: type[Exception], own: BoundTarget, prepare: Prepare
) -> None:
    """A program that is rejected or has nowhere to go ends the attach; the run's stop lets go of the rest."""
    read_kernel_btf("/")  # stays open for the whole session
    held = list_held()
    collector = kind()
    prepare(collector)
    with pytest.raises(error):
        collector.attach(own)
    assert len(collector.stop()) == 0
    assert list_held() == held


@pytest.mark.parametrize("kind", [Calls, CallRows])
def test_a_collector_that_was_never_attached_lets_go(kind: type[ProgramCollector], prepare: Prepare) -> None:
    """As where the program to be launched does not exist."""
    read_kernel_btf("/")  # stays open for the whole session
    held = list_held()
    collector = kind()
    prepare(collector)
    assert isinstance(collector.stop(), Batch)
    assert list_held() == held


@pytest.mark.spec("RUN-17")
def test_programs_are_detached_first_and_open_until_their_account_is_read(
    own: BoundTarget, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the account holds does not grow while it is read, and no program is unloaded with its account unread."""
    accounts: list[tuple[bool, bool]] = []

    class Watched(Calls):
        def write_programs(self, target: BoundTarget) -> None:
            super().write_programs(target)
            self.loaded = [program for program, _ in self.programs._programs]

    collector = Watched()
    read = LoadedProgram.read_account

    def read_account(program: LoadedProgram) -> Account:
        collector.transport.drain()
        call(100)
        is_still = not len(collector.transport.drain())
        accounts.append((is_still, all(one.descriptor >= 0 for one in collector.loaded)))
        return read(program)

    prepare(collector)
    collector.attach(own)
    call(10)
    monkeypatch.setattr(LoadedProgram, "read_account", read_account)
    collector.stop()
    assert accounts == [(True, True)] * len(collector.loaded)
    assert all(one.descriptor < 0 for one in collector.loaded)


@pytest.mark.spec("EVT-5")
def test_what_a_count_grew_by_and_nobody_saw_is_unseen() -> None:
    """Each count by itself, of those that were read twice; what was seen and not counted yet makes up for no other."""
    before = ({1: 10, 2: 0}, {1: 100, 2: 50, 3: 7})
    assert compute_unseen(before, ({1: 15, 2: 9, 3: 4}, {1: 108, 2: 50, 3: 7, 4: 90})) == 3
    assert compute_unseen(before, ({1: 10, 2: 0}, {2: 52, 3: 9})) == 4
    assert compute_unseen(({}, {}), ({}, {})) == 0
