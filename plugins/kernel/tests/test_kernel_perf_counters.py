"""Counters of perf events: what is counted of whom, scaled by what share of the unit, and what refuses them."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from compiled import compile_c, run_tool
from hypothesis import given
from hypothesis import strategies as st
from moments import read_stolen
from omn_kernel.cgroup import bind_cgroup_path
from omn_kernel.cpu_clock import read_process_clock
from omn_kernel.perf import counted, opening
from omn_kernel.perf.attributes import EventAttributes, Place, open_event
from omn_kernel.perf.counters import CounterCollector
from omn_kernel.perf.events import get_event
from omn_kernel.perf.reading import Counted, compute_counted
from omn_kernel.probes.events import probe_perf
from omn_kernel.procfs.task import TICK_NS
from shapes import make_resolved

from omn_core.api import (
    BoundTarget,
    InTargetCost,
    MachineRefused,
    Need,
    ProbeContext,
    RequestError,
    State,
    Target,
    TargetGone,
)
from omn_core.model.request import Request, RequestWindow
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread
from omn_core.testing.stepped import Running, Workload, make_workload
from omn_core.testing.workloads import spin, threads, touch_pages

Start = Callable[[Workload], Running]


class Faults(CounterCollector):
    """Page faults, the two kinds apart."""

    events: Mapping[str, str] = {"value": "sw:page-faults", "minor": "sw:minor-faults", "major": "sw:major-faults"}


class Clock(CounterCollector):
    """How long tasks ran."""

    events: Mapping[str, str] = {"value": "sw:task-clock"}
    oncpu = "oncpu_ns"


class Switches(CounterCollector):
    """What only the kernel raises."""

    events: Mapping[str, str] = {"value": "sw:context-switches"}


class Cycles(CounterCollector):
    """What this machine may not have."""

    events: Mapping[str, str] = {"value": "hw:cycles"}


def drive(
    collector: CounterCollector,
    target: BoundTarget,
    *,
    keys: tuple[str, ...] = (),
    start_ns: int | None = None,
    emit: str = "raw",
    filter_fields: tuple[str, ...] = (),
) -> Driver:
    """Make a driver of a collector, or skip where this user may not count for the target."""
    for spelled in collector.events.values():
        answer = probe_perf(Need("", "perf", spelled), ProbeContext(target.target.kind))
        if answer.state is State.RESTRICTED:
            pytest.skip(f"perf events are closed to this user: {answer.reason}")
    window = None if start_ns is None else RequestWindow(start_ns)
    request = Request("f.x", "poll", keys=keys, target=target.target, window=window)
    resolved = make_resolved((emit,), request=request, target=target.target, filter_fields=filter_fields)
    return Driver(collector, resolved, target)


def count_open_events() -> int:
    """Count the perf events that this process holds."""
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sum(os.path.islink(link) and os.readlink(link) == "anon_inode:[perf_event]" for link in links)


def read_faults(pid: int) -> int:
    """Return a process's minor and major faults with those of the children it has waited for: proc(5), fields 10-13."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return sum(map(int, fields[7:11]))


@pytest.mark.parametrize(
    ("emit", "filter_fields", "opened"),
    [("count", (), {"value"}), ("count", ("minor",), {"value", "minor"}), ("raw", (), {"value", "minor", "major"})],
)
def test_of_several_events_those_are_opened_that_the_answer_shows(
    workload: Start, emit: str, filter_fields: tuple[str, ...], opened: set[str]
) -> None:
    """The kernel counts each of them in the target, so that what is not shown is not counted."""
    program = workload(touch_pages(100))
    program.wait("ready")
    before = count_open_events()
    with drive(Faults(), bind_thread(program.pid, program.pid), emit=emit, filter_fields=filter_fields) as driver:
        assert count_open_events() == before + len(opened)
        program.release()
        program.wait("touched")
        (row,) = driver.sample()
    assert row.keys() & Faults.events.keys() == opened
    assert row["value"] >= 100


FAMILY = make_workload(
    "touch pages here and in children",
    """
import mmap
def touch(count):
    area = mmap.mmap(-1, count * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for offset in range(0, len(area), mmap.PAGESIZE):
        area[offset] = 1
step("ready")
touch(500)
for _ in range(5):
    child = os.fork()
    if child == 0:
        touch(1000)
        os._exit(0)
    os.waitpid(child, 0)
step("touched")
""",
)


@pytest.mark.spec("MEM-1")
def test_faults_are_those_of_getrusage_children_that_ended_included(workload: Start) -> None:
    """The kernel counts a fault for the event and for getrusage in one place: what wait4 returns is what was counted.

    From the attach to the end of the program and of five children, which are waited for before.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = workload(FAMILY)
    program.wait("ready")
    with drive(Faults(), bind_processes(program.pid)) as driver:
        at_attach = read_faults(program.pid)
        program.release()
        program.wait("touched")
        assert driver.sample()[0]["value"] >= 5500
        program.release()
        program.wait_exited()
        driver.sample()
        total = sum(row["value"] for row in driver.rows)
        parts = sum(row["minor"] + row["major"] for row in driver.rows)
    assert program.finish() == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted_by_wait = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt
    assert total == parts == counted_by_wait - at_attach


def test_a_launched_program_is_counted_from_its_exec(tmp_path: Path) -> None:
    """What happens in the process before is omn's own making: the thousand pages that it touches are in no count."""
    hold, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release)
        os.read(hold, 1)
        area = bytearray(4096 * 2000)
        for offset in range(0, len(area), 4096):
            area[offset] = 1
        os.execv("/bin/true", ["true"])
    os.close(hold)
    with drive(Faults(), bind_processes(child, launched=True)) as driver:
        assert driver.sample()[0]["value"] == 0
        os.close(release)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        (row,) = driver.sample()
    assert 0 < row["value"] < 2000 < read_faults(child)
    os.waitpid(child, 0)


def test_a_launched_program_whose_window_opens_later_is_counted_from_then(workload: Start) -> None:
    """Its exec is over and comes no more: the counter must not wait for it."""
    program = workload(touch_pages(1000))
    program.wait("ready")
    with drive(Faults(), bind_processes(program.pid, launched=True), start_ns=1) as driver:
        program.release()
        program.wait("touched")
        assert driver.sample()[0]["value"] >= 1000


def test_threads_that_were_there_and_those_that_came_are_counted(workload: Start) -> None:
    """Two threads wait at the attach, and both come and end in the process's own clock as in the event's.

    The scheduler's clock leaves out what a hypervisor took and perf's does not, so that they may differ by that.
    """
    program = workload(threads([b"one", b"two"], 100_000_000))
    program.wait("ready")
    with drive(Clock(), bind_processes(program.pid)) as driver:
        before, stolen = read_process_clock(program.pid), read_stolen()
        program.release()
        program.wait("ran")
        program.release()
        program.wait("ended")
        (row,) = driver.sample()
        ran_ns, stolen_ns = read_process_clock(program.pid) - before, read_stolen() - stolen
    assert ran_ns >= 200_000_000
    assert row["value"] == pytest.approx(ran_ns, rel=0.1, abs=stolen_ns + 2 * TICK_NS)
    assert row["oncpu_ns"] == pytest.approx(row["value"], rel=0.01)
    assert row["pid"] == program.pid


def test_a_thread_is_counted_alone_and_to_its_end(workload: Start) -> None:
    """Not the other thread's time, nor anything after its own end, which is the end of the request."""
    program = workload(threads([b"one", b"two"], 50_000_000))
    first, _ = program.wait("ready")["tids"]
    stolen = read_stolen()
    with drive(Clock(), bind_thread(program.pid, first)) as driver:
        program.release()
        spent = program.wait("ran")["oncpu_ns"][0]
        program.release()
        program.wait("ended")
        (row,) = driver.sample()
        with pytest.raises(TargetGone):
            driver.sample()
    # What a hypervisor took is told in ticks, late by one.
    assert row["value"] == pytest.approx(spent, rel=0.2, abs=read_stolen() - stolen + 2 * TICK_NS)


def test_a_process_that_ended_has_no_rows_of_zero(workload: Start) -> None:
    """Its last words are one, and the other process of the target goes on alone."""
    first, second = workload(touch_pages(10)), workload(touch_pages(10))
    for program in (first, second):
        program.wait("ready")
    with drive(Faults(), bind_processes(first.pid, second.pid)) as driver:
        assert len(driver.sample()) == 2
        first.release()
        first.wait("touched")
        first.release()
        first.wait_exited()
        assert {row["pid"] for row in driver.sample()} == {first.pid, second.pid}
        assert [row["pid"] for row in driver.sample()] == [second.pid]
        assert driver.collector.losses().is_empty
        # The kernel counts in the program's own time, and nothing says how much of it.
        assert driver.collector.in_target_cost() == InTargetCost(None)


def test_the_machine_is_one_row_or_one_of_each_cpu(workload: Start) -> None:
    """Of what a program pinned to one cpu ran, that cpu has at least as much."""
    cpu = max(os.sched_getaffinity(0))
    program = workload(touch_pages(3000))
    os.sched_setaffinity(program.pid, {cpu})
    program.wait("ready")
    with drive(Faults(), bind_machine(), keys=("cpu",)) as divided, drive(Faults(), bind_machine()) as whole:
        program.release()
        program.wait("touched")
        rows = {row["cpu"]: row["value"] for row in divided.sample()}
        (row,) = whole.sample()
    assert len(rows) == os.cpu_count()
    assert rows[cpu] >= 3000
    assert row["value"] >= 3000
    assert "cpu" not in row


def test_a_cpu_is_counted_alone(workload: Start) -> None:
    """The target's own cpus and no other."""
    cpu = max(os.sched_getaffinity(0))
    with drive(Clock(), bind_machine(cpu), keys=("cpu",)) as driver:
        assert [row["cpu"] for row in driver.sample()] == [cpu]


def test_a_cgroup_is_counted_with_what_moves_into_it(workload: Start, make_cgroup: Callable[[str], Path]) -> None:
    """One row over all cpus, of the processes that are in it and of no other."""
    path = make_cgroup("unified")
    inside, outside = workload(touch_pages(2000)), workload(touch_pages(2000))
    for program in (inside, outside):
        program.wait("ready")
    (path / "cgroup.procs").write_text(str(inside.pid))
    place = bind_cgroup_path(str(path), "/")
    target = BoundTarget(Target("cgroup", str(path)), "cgroup", place=place)
    with drive(Faults(), target) as driver:
        before = read_faults(inside.pid)
        for program in (inside, outside):
            program.release()
            program.wait("touched")
        (row,) = driver.sample()
        assert row["value"] == read_faults(inside.pid) - before
        assert row["cgroup"] == place.path


def test_a_cgroup_that_is_removed_ends_the_request(make_cgroup: Callable[[str], Path]) -> None:
    """Its last reading is made after that, and none after it."""
    path = make_cgroup("unified") / "inner"
    path.mkdir()
    target = BoundTarget(Target("cgroup", str(path)), "cgroup", place=bind_cgroup_path(str(path), "/"))
    with drive(Faults(), target) as driver:
        path.rmdir()
        assert driver.sample()[0]["value"] == 0
        with pytest.raises(TargetGone):
            driver.sample()


@pytest.mark.parametrize(("kind", "key"), [("pid", "cpu"), ("system", "proc")])
def test_a_key_that_a_count_does_not_have_is_refused(kind: str, key: str) -> None:
    """An inherited count is of a process on whatever cpu, a cpu's of whatever process."""
    target = bind_machine() if kind == "system" else BoundTarget(Target("pid", (os.getpid(),)), "process")
    driver = Driver(Faults(), make_resolved(request=Request("f.x", "poll", keys=(key,)), target=target.target), target)
    with pytest.raises(RequestError, match=f"not divided by '{key}'"), driver:
        raise AssertionError("it was prepared")


@pytest.fixture
def paranoid(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EventAttributes]]:
    """Refuse events with the kernel's part, as kernel.perf_event_paranoid 2 does to who lacks the capability."""
    opened: list[EventAttributes] = []

    def refuse(attributes: EventAttributes, place: Place) -> int:
        if not attributes.exclude_kernel:
            raise PermissionError(errno.EACCES, "Permission denied")
        opened.append(attributes)
        return open_event(attributes, place)

    monkeypatch.setattr(opening, "open_event", refuse)
    return opened


@pytest.mark.spec("KRN-7", "PRB-5")
def test_without_the_privilege_user_mode_is_counted_and_said(workload: Start, paranoid: list[EventAttributes]) -> None:
    """A fault of the program's own code is there, the kernel's are not, and the result says so."""
    program = workload(touch_pages(1000))
    program.wait("ready")
    with drive(Faults(), bind_processes(program.pid)) as driver:
        program.release()
        program.wait("touched")
        assert driver.sample()[0]["value"] >= 1000
        said = driver.collector.degradations()
    assert len(said) == len(paranoid) == 3
    assert "the software event page-faults was opened in user mode alone" in said[0]


@pytest.mark.spec("KRN-7")
def test_what_only_the_kernel_raises_is_refused_without_the_privilege(paranoid: list[EventAttributes]) -> None:
    """In user mode it would read zero."""
    with (
        pytest.raises(MachineRefused, match=r"context-switches is closed to this user \(kernel.perf_event_paranoid is"),
        drive(Switches(), bind_processes(os.getpid())),
    ):
        raise AssertionError("it was attached")
    assert paranoid == []


@pytest.mark.spec("KRN-7")
@pytest.mark.parametrize("make", [Faults, Clock, Switches])
def test_where_this_user_may_open_no_event_each_is_refused_by_name(
    make: Callable[[], CounterCollector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Debian's kernels answer at paranoid 3, the program's own part included; and nothing is left open."""

    def refuse(attributes: EventAttributes, place: Place) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    collector = make()
    target = bind_processes(os.getpid())
    monkeypatch.setattr(opening, "open_event", refuse)
    descriptors = len(os.listdir("/proc/self/fd"))
    name = collector.events["value"].removeprefix("sw:")
    with (
        pytest.raises(MachineRefused, match=rf"software event {name} is closed to this user \(kernel.perf_event_para"),
        Driver(collector, make_resolved(target=target.target), target),
    ):
        raise AssertionError("it was attached")
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.spec("KRN-7")
def test_a_clock_counts_all_of_it_without_the_privilege(workload: Start, paranoid: list[EventAttributes]) -> None:
    """A clock does not ask in whose code it runs, so that nothing is lost and nothing said."""
    program = workload(spin(20_000_000))
    program.wait("ready")
    with drive(Clock(), bind_processes(program.pid)) as driver:
        program.release()
        spent = program.wait("spun")["oncpu_ns"]
        assert driver.sample()[0]["value"] >= 0.9 * spent
        assert driver.collector.degradations() == ()
    assert len(paranoid) == 1


def test_threads_that_come_while_counters_are_opened_are_opened_anew(
    workload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the one that came was counted already nobody can tell, so that all are closed and opened again."""
    program = workload(touch_pages(1))
    program.wait("ready")
    lists = [[program.pid], [program.pid, program.pid], [program.pid, 4194301], [program.pid], [program.pid]]
    monkeypatch.setattr(opening, "list_threads", lambda sysroot, pid: lists.pop(0))
    descriptors = len(os.listdir("/proc/self/fd"))
    with drive(Faults(), bind_processes(program.pid)):
        assert lists == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_threads_that_never_stop_coming_are_refused(workload: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is left open."""
    program = workload(touch_pages(1))
    program.wait("ready")
    coming = iter(range(4_000_000, 4_100_000))
    monkeypatch.setattr(opening, "list_threads", lambda sysroot, pid: [pid, next(coming)])
    descriptors = len(os.listdir("/proc/self/fd"))
    with (
        pytest.raises(MachineRefused, match="starts threads faster than its counters can be opened"),
        drive(Faults(), bind_processes(program.pid)),
    ):
        raise AssertionError("it was attached")
    assert len(os.listdir("/proc/self/fd")) == descriptors + 1  # the target's own pidfd, which the test let go of


@pytest.mark.spec("KRN-7")
def test_a_machine_without_the_unit_refuses_by_name() -> None:
    """A guest without hardware counters names the event that it has none for."""
    if probe_perf(Need("", "perf", "hw:cycles"), ProbeContext("pid")).state is not State.MISSING:
        pytest.skip("this machine has hardware counters, or does not tell this user")
    with pytest.raises(MachineRefused, match="hardware event cycles cannot be opened"):
        Driver(Cycles(), make_resolved(), bind_processes(os.getpid())).__enter__()


def hand_over(monkeypatch: pytest.MonkeyPatch, readings: list[tuple[int, int, int]]) -> None:
    """Open nothing, and read what a unit that is shared would say."""

    def open_nothing(attributes: EventAttributes, place: Place) -> int:
        return os.open("/dev/null", os.O_RDONLY)

    monkeypatch.setattr(opening, "open_event", open_nothing)
    monkeypatch.setattr(counted, "read_counters", lambda descriptors: np.array([readings.pop(0)], np.uint64))


def test_a_count_that_shared_its_unit_is_scaled_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the time on the unit: four times as much, both kept, interval by interval."""
    hand_over(monkeypatch, [(0, 0, 0), (1000, 400, 100), (3000, 800, 500)])
    with Driver(Cycles(), make_resolved(), bind_thread(os.getpid(), os.getpid())) as driver:
        assert driver.sample()[0]["value"] == 4000
        assert driver.sample()[0]["value"] == 2000
        assert driver.collector.fields() == {
            "value_counted": 3000,
            "value_enabled_ns": 800,
            "value_running_ns": 500,
        }
        (said,) = driver.collector.degradations()
    assert said.startswith("the hardware event cycles shared its unit: it ran 62% of the time")


@pytest.mark.spec("EVT-5")
def test_a_count_that_never_ran_is_unknown_and_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enabled, and never on the unit: its interval has no figure, and is a reading that gave nothing."""
    hand_over(monkeypatch, [(0, 0, 0), (0, 400, 0), (700, 800, 400)])
    with Driver(Cycles(), make_resolved(), bind_thread(os.getpid(), os.getpid())) as driver:
        assert "value" not in driver.sample()[0]
        assert driver.sample()[0]["value"] == 700
        losses = driver.collector.losses()
    assert losses.failed_reads == 1
    assert "had no place on its unit" in losses.reasons[0]


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62)).filter(
            lambda row: row[2] <= row[1]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_counts_are_scaled_exactly(rows: list[tuple[int, int, int]]) -> None:
    """To the nearest whole, counter by counter; one that was enabled and never ran makes the sum unknown."""
    expected: int | None = 0
    for raw, enabled, running in rows:
        if running == 0 and enabled > 0:
            expected = None
        elif expected is not None:
            expected += raw if running == enabled else (2 * raw * enabled + running) // (2 * running)
    got = compute_counted(np.array(rows, dtype=object))
    assert got == Counted(expected, *(sum(row[place] for row in rows) for place in range(3)))


ENUMERATORS = {
    "hw:cycles": "HW_CPU_CYCLES",
    "hw:instructions": "HW_INSTRUCTIONS",
    "hw:cache-references": "HW_CACHE_REFERENCES",
    "hw:cache-misses": "HW_CACHE_MISSES",
    "hw:branches": "HW_BRANCH_INSTRUCTIONS",
    "hw:branch-misses": "HW_BRANCH_MISSES",
    "hw:bus-cycles": "HW_BUS_CYCLES",
    "hw:stalled-cycles-frontend": "HW_STALLED_CYCLES_FRONTEND",
    "hw:stalled-cycles-backend": "HW_STALLED_CYCLES_BACKEND",
    "hw:ref-cycles": "HW_REF_CPU_CYCLES",
    "sw:cpu-clock": "SW_CPU_CLOCK",
    "sw:task-clock": "SW_TASK_CLOCK",
    "sw:page-faults": "SW_PAGE_FAULTS",
    "sw:context-switches": "SW_CONTEXT_SWITCHES",
    "sw:cpu-migrations": "SW_CPU_MIGRATIONS",
    "sw:minor-faults": "SW_PAGE_FAULTS_MIN",
    "sw:major-faults": "SW_PAGE_FAULTS_MAJ",
}


def test_events_have_the_numbers_that_the_kernels_header_gives_them(tmp_path: Path) -> None:
    """Those of the processor too, which this machine may not have: what is opened there is what was asked."""
    lines = [f'printf("%d %d\\n", PERF_TYPE_{one[:2]}WARE, PERF_COUNT_{one});' for one in ENUMERATORS.values()]
    body = "".join(lines).replace("TYPE_HWWARE", "TYPE_HARDWARE").replace("TYPE_SWWARE", "TYPE_SOFTWARE")
    source = f"#include <linux/perf_event.h>\n#include <stdio.h>\nint main(void) {{ {body} return 0; }}\n"
    printed = run_tool(str(compile_c(tmp_path, "numbers", source)))
    numbers = [(event.kind, event.config) for event in map(get_event, ENUMERATORS)]
    assert [tuple(map(int, line.split())) for line in printed.splitlines()] == numbers


def test_an_event_is_found_by_its_name() -> None:
    """And one that the kernel does not name is an error of who asks."""
    assert get_event("sw:page-faults").is_software
    assert not get_event("hw:cycles").is_software
    with pytest.raises(ValueError, match="names no perf event 'sw:carpets'"):
        get_event("sw:carpets")


def test_perf_events_are_not_asked_where_a_folder_stands_for_the_machine(tmp_path: Path) -> None:
    """They would be this machine's."""
    answer = probe_perf(Need("", "perf", "sw:page-faults"), ProbeContext(sysroot=str(tmp_path)))
    assert answer.state is State.MISSING
