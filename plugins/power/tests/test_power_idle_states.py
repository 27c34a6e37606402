"""power.cstate: known counters in a made tree, a cpu that goes, and this machine's own files read beside it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.cpus import FOLDER
from omn_power.idle_states import IdleStates, read_state_names
from step_clock import Steps

from omn_core.api import MachineRefused, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.stepped import Workload, start
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]
SECOND = 1_000_000_000


@pytest.fixture
def clock() -> Steps:
    """The clock of the test's drivers."""
    return Steps()


@pytest.fixture
def drive(catalog: Catalog, sysroot: Sysroot, clock: Steps) -> Drive:
    """Make a driver on the tree."""

    def make(*keys: str, cpus: Sequence[int] = (), says: str | None = None) -> Driver:
        target = Target("cpu", tuple(cpus)) if cpus else Target("system")
        resolved = resolve_onto(catalog.entries["power.cstate"], "fs:sys:cpuidle", target, keys=keys, predicate=says)
        return Driver(IdleStates(), resolved, bind_machine(*cpus), sysroot=str(sysroot), clock=clock)

    return make


def write_states(sysroot: Sysroot, cpus: Mapping[int, Mapping[str, tuple[int, int]]]) -> None:
    """Lay cpuidle out as Documentation/admin-guide/pm/cpuidle.rst has it: microseconds and entries of each state."""
    sysroot.write(f"{FOLDER}/online", ",".join(map(str, cpus)) + "\n")
    for cpu, states in cpus.items():
        for number, (name, (time_us, entries)) in enumerate(states.items()):
            folder = f"{FOLDER}/cpu{cpu}/cpuidle/state{number}"
            for file, content in (("name", name), ("time", time_us), ("usage", entries)):
                sysroot.write(f"{folder}/{file}", f"{content}\n")


def pick(rows: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


ZERO = {"POLL": (0, 0), "C1": (0, 0), "C6": (0, 0)}
BEFORE = {0: ZERO, 1: {"POLL": (5, 1), "C1": (7, 2), "C6": (9, 3)}}
AFTER = {
    0: {"POLL": (0, 0), "C1": (100_000, 50), "C6": (400_000, 20)},
    1: {"POLL": (5, 1), "C1": (7, 2), "C6": (700_009, 13)},
}
"""In one second: cpu 0 idles for a half, a fifth of that shallow; cpu 1 for 0.7, all of it deep."""


@pytest.mark.spec("PWR-1")
@pytest.mark.parametrize(
    ("keys", "names", "expected"),
    [
        ((), ("residency",), [(0.6,)]),
        (("cpu",), ("cpu", "residency"), [(0, 0.5), (1, 0.7)]),
        (("power.state",), ("power.state", "residency"), [("POLL", 0.0), ("C1", 0.05), ("C6", 0.55)]),
        (
            ("cpu", "power.state"),
            ("cpu", "power.state", "time_ns", "entries"),
            [
                (0, "POLL", 0, 0),
                (0, "C1", 100_000_000, 50),
                (0, "C6", 400_000_000, 20),
                (1, "POLL", 0, 0),
                (1, "C1", 0, 0),
                (1, "C6", 700_000_000, 10),
            ],
        ),
    ],
)
def test_a_share_is_of_the_cpus_and_states_that_are_not_told_apart(
    sysroot: Sysroot, drive: Drive, clock: Steps, keys: tuple[str, ...], names: tuple[str, ...], expected: list[Any]
) -> None:
    """Of all cpus' time in all states together, or of what a key divides it into."""
    write_states(sysroot, BEFORE)
    with drive(*keys) as driver:
        write_states(sysroot, AFTER)
        clock.now_ns += SECOND
        rows = driver.sample()
    assert pick(rows, *names) == expected
    assert {row["interval_ns"] for row in rows} == {SECOND}
    assert driver.collector.fields() == {"late_credits": 0}


def test_a_filter_that_names_a_state_divides_by_it(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """The rows that it chooses among are there."""
    write_states(sysroot, BEFORE)
    with drive(says="power.state == 'C6'") as driver:
        write_states(sysroot, AFTER)
        clock.now_ns += SECOND
        assert [row["power.state"] for row in driver.sample()] == ["POLL", "C1", "C6"]


def test_a_cpu_that_is_named_is_the_only_one(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """A row of it, its key on it."""
    write_states(sysroot, BEFORE)
    with drive(cpus=[1]) as driver:
        write_states(sysroot, AFTER)
        clock.now_ns += SECOND
        assert pick(driver.sample(), "cpu", "residency", "entries") == [(1, 0.7, 10)]


def test_an_idle_period_longer_than_its_interval_is_kept_to_it_and_said(
    sysroot: Sysroot, drive: Drive, clock: Steps
) -> None:
    """The kernel adds three seconds up at a wake: a share of 3 would be a spike, and the readings before are short."""
    write_states(sysroot, {0: ZERO})
    with drive("cpu") as driver:
        clock.now_ns += SECOND
        asleep = driver.sample()
        write_states(sysroot, {0: {**ZERO, "C6": (3_000_000, 1)}})
        clock.now_ns += SECOND
        awake = driver.sample()
        assert pick(asleep + awake, "residency", "time_ns") == [(0.0, 0), (1.0, 3 * SECOND)]
        assert driver.collector.fields() == {"late_credits": 1}
        assert "an idle period that began before the interval" in driver.collector.facts()[0]


@pytest.mark.spec("PWR-1")
def test_a_cpu_that_goes_and_comes_back_is_said_and_never_a_spike(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """Its folder goes with it. What its counters hold when they are back is a baseline."""
    write_states(sysroot, BEFORE)
    shares = []
    with drive() as driver:
        for cpus in (AFTER, {0: AFTER[0]}, {0: AFTER[0]}, {**AFTER, 1: {**ZERO, "C6": (10**12, 9)}}):
            if 1 not in cpus and sysroot.path(f"{FOLDER}/cpu1").exists():
                sysroot.remove(f"{FOLDER}/cpu1")
            write_states(sysroot, cpus)
            clock.now_ns += SECOND
            shares += [row["residency"] for row in driver.sample()]
        assert shares == [0.6, 0.0, 0.0, 0.0]
        assert driver.collector.losses().is_empty
        assert driver.collector.facts() == (
            "cpu 1 went offline in the window",
            "cpu 1 came online in the window, and counts from its first reading",
        )


def test_states_of_one_name_are_told_apart_and_a_driver_is_no_state(sysroot: Sysroot) -> None:
    """By the folder; what else lies there is passed over."""
    write_states(sysroot, {0: {"POLL": (0, 0), "C1": (0, 0)}})
    sysroot.write(f"{FOLDER}/cpu0/cpuidle/state2/name", "C1\n").write(f"{FOLDER}/cpu0/cpuidle/driver/name", "idle\n")
    names = {f"cpuidle/state{number}": name for number, name in enumerate(["POLL", "C1", "C1 (state2)"])}
    assert read_state_names(str(sysroot), 0) == names
    assert read_state_names(str(sysroot), 7) == {}


def test_a_machine_without_idle_states_is_refused(sysroot: Sysroot, drive: Drive) -> None:
    """By the file that is missing."""
    write_states(sysroot, {0: {}})
    with pytest.raises(MachineRefused, match=r"no cpu here has idle states \(cpuidle/state0/time"):
        drive().__enter__()


# This machine's own states.


def read_by_hand(cpu: int) -> dict[str, int]:
    return {
        state.name: int((state / "time").read_text()) * 1000
        for state in Path(f"{FOLDER}/cpu{cpu}/cpuidle").glob("state[0-9]*")
    }


@pytest.fixture
def cpu() -> int:
    """A cpu of this machine that has idle states and that this process may run on."""
    allowed = [one for one in sorted(os.sched_getaffinity(0)) if read_state_names("/", one)]
    if not allowed:
        pytest.skip("no cpu here has idle states")
    return allowed[-1]


def drive_here(catalog: Catalog, cpu: int) -> Driver:
    keys = ("cpu", "power.state")
    resolved = resolve_onto(catalog.entries["power.cstate"], "fs:sys:cpuidle", Target("cpu", (cpu,)), keys=keys)
    return Driver(IdleStates(), resolved, bind_machine(cpu))


def wake(cpu: int) -> Workload:
    """Sleep a millisecond on a cpu three hundred times: residency is credited at each wake."""
    source = f"import os, time\nos.sched_setaffinity(0, {{{cpu}}})\nfor _ in range(300): time.sleep(0.001)"
    return Workload("wake every millisecond", source)


@pytest.mark.spec("PWR-1")
def test_residency_is_what_the_kernels_files_say_of_the_same_window(catalog: Catalog, cpu: int) -> None:
    """Read by hand just inside and just outside of omn's readings, the cpu woken all the time: omn's lie between."""
    names = read_state_names("/", cpu)
    with start(wake(cpu)) as waker:
        outer = [read_by_hand(cpu)]
        with drive_here(catalog, cpu) as driver:
            inner = [read_by_hand(cpu)]
            assert waker.finish() == 0
            inner.append(read_by_hand(cpu))
            rows = driver.sample()
            outer.append(read_by_hand(cpu))
    assert [row["power.state"] for row in rows] == list(names.values())
    for folder, row in zip(names, rows, strict=True):
        state = folder.removeprefix("cpuidle/")
        assert inner[1][state] - inner[0][state] <= row["time_ns"] <= outer[1][state] - outer[0][state]


@pytest.fixture
def spinner(cpu: int) -> Iterator[int]:
    """The pid of a program that runs on the cpu without end, and is running."""
    source = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    running = start(Workload("spin on", source))
    with running:
        wait_for_cpu_time(running.pid, 20_000_000)
        yield running.pid


def wait_for_cpu_time(pid: int, length_ns: int) -> None:
    """Wait until a process has run for so much longer than when it is first looked at."""
    began = read_run_ns(pid)
    deadline = time.monotonic() + 60
    while read_run_ns(pid) < began + length_ns:
        assert time.monotonic() < deadline, "the spinner does not run"
        time.sleep(0.002)


def read_run_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@pytest.mark.spec("PWR-1")
def test_a_cpu_that_always_has_work_never_idles(catalog: Catalog, cpu: int, spinner: int) -> None:
    """Every idle period before the spinner was credited when it began: from there no state is entered."""
    with drive_here(catalog, cpu) as driver:
        wait_for_cpu_time(spinner, 100_000_000)
        rows = driver.sample()
    assert {(row["time_ns"], row["entries"], row["residency"]) for row in rows} == {(0, 0, 0.0)}


def test_a_cpu_unplugged_in_the_window_is_said(catalog: Catalog) -> None:
    """cpu 1 of this machine, off for some milliseconds: its own files go and come back."""
    switch = Path(f"{FOLDER}/cpu1/online")
    if not os.access(switch, os.W_OK) or not read_state_names("/", 1):
        pytest.skip("cpu 1 cannot be taken offline here")
    resolved = resolve_onto(
        catalog.entries["power.cstate"], "fs:sys:cpuidle", Target("system"), keys=("cpu",), interval_ns=1
    )
    with Driver(IdleStates(), resolved, bind_machine()) as driver:
        try:
            try:
                switch.write_text("0")
            except OSError as error:
                pytest.skip(f"cpu 1 cannot be taken offline here: {error.strerror}")
            gone = driver.sample()
        finally:
            switch.write_text("1")
        back = driver.sample()
        after = driver.sample()
        facts = driver.collector.facts()
    assert 1 not in {row["cpu"] for row in gone + back}
    assert 1 in {row["cpu"] for row in after}
    assert all(0 <= row["residency"] <= 1 for row in driver.rows)
    assert facts[:2] == (
        "cpu 1 went offline in the window",
        "cpu 1 came online in the window, and counts from its first reading",
    )


def test_the_command_line_reports_the_window_of_a_program(omn: Command, cpu: int) -> None:
    """A program sets the window, the machine is what the figure is about."""
    argv = [sys.executable, "-c", "import time; time.sleep(0.3)"]
    asked = ("power.cstate", "--keys", "power.state", "--interval", "100ms", "--system", "--format", "json", "--")
    ran = omn(*asked, *argv)
    assert ran.code == 0, ran.stderr
    assert (ran.result["scope"], ran.result["backend"]) == ("system", "fs:sys:cpuidle")
    states = {series["key"]["power.state"]: series["emits"]["summary"] for series in ran.result["series"]}
    assert set(states) >= set(read_state_names("/", cpu).values())
    assert all(0 <= figures["mean"] <= 1 for figures in states.values())
