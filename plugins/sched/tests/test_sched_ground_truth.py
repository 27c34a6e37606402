"""The scheduler's counts held against programs that block, wait and move a known number of times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from closed_events import hold_served
from omn_kernel.procfs.machine import CPU_FIELDS, parse_cpu_ticks
from omn_kernel.procfs.task import TICK_NS, parse_schedstat, parse_stat, parse_switches
from omn_sched import events
from omn_sched.threads import Migrations, Switches, Waits

from omn_core.api import BoundTarget, Collector
from omn_core.model.catalog import Catalog
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.workloads import spin

Start = Callable[[Workload], Running]


def drive_switches(catalog: Catalog, target: BoundTarget) -> Driver:
    resolved = resolve_onto(catalog.entries["sched.switches"], "fs:proc:status", target.target, mode="poll")
    return Driver(Switches(), resolved, target)


def read_text(path: str) -> str:
    with open(path) as file:
        return file.read()


def wait_blocked(pid: int) -> None:
    """Wait until a process has left its cpu in a system call: the kernel tells which only once it is off it."""
    while read_text(f"/proc/{pid}/syscall").startswith("running"):
        os.sched_yield()
    while parse_stat(read_text(f"/proc/{pid}/stat").encode()).state != "S":
        os.sched_yield()


READ_BYTES = """
import json, os, resource, sys
os.write(1, b"r")
os.read(0, 1)
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range({count}):
    os.read(0, 1)
after = resource.getrusage(resource.RUSAGE_SELF)
os.write(1, json.dumps([after.ru_nvcsw - before.ru_nvcsw, after.ru_nivcsw - before.ru_nivcsw]).encode() + b"\\n")
os.read(0, 1)
"""


@contextmanager
def run_in_child(source: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-S", "-c", source]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        try:
            yield child
        finally:
            child.kill()


def tell(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"\n")


def hear(child: subprocess.Popen[bytes]) -> Any:
    assert child.stdout is not None
    return json.loads(child.stdout.readline())


@pytest.mark.spec("SCH-1", "SRC-1", "CAT-11")
def test_a_program_that_blocks_a_thousand_times_switched_a_thousand_times(catalog: Catalog) -> None:
    """Each byte is sent once the program sleeps for it: 1,000 blocks by its own getrusage, and as many in the row.

    The row has two more of the program's making: it wakes once before it counts itself, and sleeps once after.
    """
    with run_in_child(READ_BYTES.format(count=1000)) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"
        wait_blocked(child.pid)
        with drive_switches(catalog, bind_processes(child.pid)) as driver:
            tell(child)
            for _ in range(1000):
                wait_blocked(child.pid)
                tell(child)
            voluntary, involuntary = hear(child)
            wait_blocked(child.pid)
            (row,) = driver.sample()
            assert driver.collector.losses().is_empty
            assert driver.collector.fields() == {"oncpu_ns": row["oncpu_ns"], "missing_ns": 0}
    assert voluntary == 1000
    assert row["voluntary"] == voluntary + 1
    assert involuntary <= row["involuntary"] <= involuntary + 4
    assert row["switches"] == row["voluntary"] + row["involuntary"]
    assert row["oncpu_ns"] > 0
    assert (row["task"], row["pid"]) == (child.pid, child.pid)


@pytest.mark.spec("SCH-1", "CAT-11")
def test_the_event_counts_the_switches_that_the_status_file_does(catalog: Catalog) -> None:
    """A thousand blocks, read on both sides of them while the program sleeps: one counter under both, to the switch."""
    with run_in_child(READ_BYTES.format(count=1000)) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"
        wait_blocked(child.pid)
        target = bind_processes(child.pid)
        resolved = resolve_onto(catalog.entries["sched.switches"], "pmu:sw", target.target, mode="poll")
        before = read_switches(child.pid)
        with Driver(events.Switches(), resolved, target) as driver:
            tell(child)
            for _ in range(1000):
                wait_blocked(child.pid)
                tell(child)
            hear(child)
            wait_blocked(child.pid)
            (row,) = driver.sample()
            after = read_switches(child.pid)
            assert driver.collector.losses().is_empty
            assert driver.collector.fields() == {"oncpu_ns": row["oncpu_ns"]}
    assert row["switches"] == after - before
    assert row["switches"] >= 1001
    assert row["oncpu_ns"] > 0


def read_switches(pid: int) -> int:
    return sum(parse_switches(read_text(f"/proc/{pid}/status").encode()))


SLEEP = "import time\nfor _ in range(50):\n    time.sleep(0.001)\n"


@pytest.mark.spec("SRC-1")
def test_a_rate_is_over_the_window_with_the_time_run_beside(omn: Command) -> None:
    """A program that mostly sleeps: its switches by the second of the window, and its own cpu time in a field."""
    ran = omn("sched.switches", "-m", "count", "-e", "rate", "--format", "json", "--", sys.executable, "-c", SLEEP)
    assert ran.code == 0, ran.stderr
    rate = ran.result["series"][0]["emits"]["rate"]
    window = ran.result["window"]
    length_ns = window["closed_ns"] - window["opened_ns"]
    assert rate["total"] >= 50
    assert rate["per_second"] == pytest.approx(rate["total"] * 1e9 / length_ns)
    assert 0 < ran.result["fields"]["oncpu_ns"] < length_ns


MOVE = """
import os
os.sched_setaffinity(0, {{{0}}})
os.write(1, b"r")
os.read(0, 1)
for _ in range(50):
    os.sched_setaffinity(0, {{{1}}})
    os.sched_setaffinity(0, {{{0}}})
os.write(1, b"[]\\n")
os.read(0, 1)
"""


@pytest.mark.spec("SCH-1", "CAT-11")
@pytest.mark.parametrize(("backend", "factory"), [("fs:proc:sched", Migrations), ("pmu:sw", events.Migrations)])
def test_a_task_moved_to_and_fro_migrated_as_often(
    catalog: Catalog, backend: str, factory: Callable[[], Collector]
) -> None:
    """Bound to one cpu and then to the other, fifty times each: a hundred moves, and none beside them."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("a task moves between two cpus, and this process has one")
    with run_in_child(MOVE.format(*cpus)) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"
        target = bind_processes(child.pid)
        resolved = resolve_onto(catalog.entries["sched.migrations"], backend, target.target, mode="poll")
        with Driver(factory(), resolved, target) as driver:
            tell(child)
            hear(child)
            (row,) = driver.sample()
            assert driver.collector.losses().is_empty
    assert row["migrations"] == 100


@pytest.mark.spec("SCH-1", "CAT-11")
def test_each_move_of_a_task_is_traced_to_its_cpu(catalog: Catalog) -> None:
    """To and fro fifty times: a hundred records, the cpus in turn."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        pytest.skip("a task moves between two cpus, and this process has one")
    with run_in_child(MOVE.format(*cpus)) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"
        target = bind_processes(child.pid)
        resolved = resolve_onto(catalog.entries["sched.migrations"], "pmu:sw:records", target.target, mode="trace")
        with Driver(events.MigrationRecords(), resolved, target) as driver:
            tell(child)
            hear(child)
            driver.sample()
    assert [row["cpu"] for row in driver.rows] == [cpus[1], cpus[0]] * 50
    assert {row["task"] for row in driver.rows} == {child.pid}


def read_taken(cpu: int) -> int:
    """Read what interrupts and the hypervisor took of a cpu, nanoseconds: kernels differ in whose time that is."""
    ticks = dict(zip(CPU_FIELDS, parse_cpu_ticks(read_text("/proc/stat").encode())[cpu], strict=False))
    return sum(ticks.get(name, 0) for name in ("irq", "softirq", "steal")) * TICK_NS


@pytest.mark.spec("SCH-1", "SRC-2", "CAT-11")
def test_two_spinners_on_one_cpu_wait_for_each_other(catalog: Catalog, workload: Start) -> None:
    """What omn has is what schedstat holds, to the nanosecond, and run and wait make up the time there was.

    Both sleep when omn reads and when the test reads by hand, so that nothing moves in between. Each runs as long as
    the other on the one cpu, so that each waits about as long as it runs, longer where others want the cpu too.
    """
    cpu = max(os.sched_getaffinity(0))
    children = [workload(spin(300_000_000, cpu)) for _ in range(2)]
    for child in children:
        child.wait("ready")
        wait_blocked(child.pid)
    pids = [child.pid for child in children]
    target = bind_processes(*pids)
    resolved = resolve_onto(catalog.entries["sched.runqlat"], "fs:proc:schedstat", target.target, mode="poll")
    with Driver(Waits(), resolved, target) as driver:
        taken = read_taken(cpu)
        opened_ns = time.monotonic_ns()
        before = {pid: parse_schedstat(read_text(f"/proc/{pid}/schedstat").encode()) for pid in pids}
        for child in children:
            child.release()
        facts = {child.pid: child.wait("spun") for child in children}
        for child in children:
            wait_blocked(child.pid)
        rows = {row["task"]: row for row in driver.sample()}
        taken = read_taken(cpu) - taken
        length_ns = time.monotonic_ns() - opened_ns
        after = {pid: parse_schedstat(read_text(f"/proc/{pid}/schedstat").encode()) for pid in pids}
        assert driver.collector.losses().is_empty
    for pid, row in rows.items():
        assert row["wait_ns"] == after[pid].wait_ns - before[pid].wait_ns
        assert row["oncpu_ns"] == after[pid].run_ns - before[pid].run_ns
        assert row["slices"] == after[pid].slices - before[pid].slices
        assert row["wait_ns"] > 0.25 * row["oncpu_ns"]
        assert 0.9 * facts[pid]["wall_ns"] - taken < row["wait_ns"] + row["oncpu_ns"] < 1.01 * length_ns
    assert set(rows) == set(pids)


def test_a_wait_is_seen_from_the_command_line(omn: Command) -> None:
    """A launched program's threads, to the last word of its first one: a figure and no loss."""
    ran = omn("sched.runqlat", "-m", "count", "-e", "count", "--format", "json", "--", *spin(5_000_000).argv)
    assert ran.code == 0, ran.stderr
    assert 0 <= ran.result["series"][0]["emits"]["count"]["value"] <= ran.document["program"]["lifetime_ns"]
    assert ran.result["losses"]["failed_reads"] == 0
    assert ran.result["unit"] == "ns"


def test_a_target_that_is_gone_is_refused(omn: Command) -> None:
    """A number that names nothing is the machine's refusal."""
    ran = omn("sched.switches", "-m", "count", "-e", "count", "--pid", "4000000", "-d", "1s")
    assert ran.code == 1
    assert "4000000" in ran.stderr


PING_PONG = """
import os
os.sched_setaffinity(0, {{{cpu}}})
there, back = os.pipe(), os.pipe()
os.write(1, b"r")
os.read(0, 1)
child = os.fork()
for _ in range(500):
    if child:
        os.write(there[1], b"x")
        os.read(back[0], 1)
    else:
        os.read(there[0], 1)
        os.write(back[1], b"x")
if not child:
    os._exit(0)
os.waitpid(child, 0)
os.write(1, b"[]\\n")
os.read(0, 1)
"""


@pytest.mark.spec("SCH-1", "EVT-6")
def test_each_switch_of_a_ping_pong_is_traced_to_its_task(catalog: Catalog) -> None:
    """Two processes on one cpu wait for each other 500 times: the first's switches are those of its status file."""
    cpu = min(os.sched_getaffinity(0))
    with run_in_child(PING_PONG.format(cpu=cpu)) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"
        wait_blocked(child.pid)
        before = read_switches(child.pid)
        target = bind_processes(child.pid)
        resolved = resolve_onto(catalog.entries["sched.switches"], "pmu:sw:records", target.target, mode="trace")
        with Driver(events.SwitchRecords(), resolved, target) as driver:
            tell(child)
            hear(child)
            wait_blocked(child.pid)
            driver.sample()
            counted = read_switches(child.pid) - before
        losses, fields = driver.collector.losses(), driver.collector.fields()
    tasks = Counter(row["task"] for row in driver.rows)
    assert losses.is_empty
    assert fields["delivered"] == fields["counted"] == len(driver.rows)
    assert tasks.pop(child.pid) == counted >= 500
    ((_, others),) = tasks.items()
    assert others >= 495  # the first of its waits may find what it waits for
    assert {row["cpu"] for row in driver.rows} == {cpu}


@pytest.mark.spec("SCH-1", "EVT-6")
def test_switches_are_within_the_call_that_sleeps(omn: Command) -> None:
    """Two hundred sleeps are two hundred switches below the kernel's function that sleeps."""
    source = "import time\nfor _ in range(200):\n    time.sleep(0.0002)"
    asked = ("sched.switches", "-m", "trace", "-e", "count", "--keys", "within", "--format", "json")
    ran = omn(*asked, "--", sys.executable, "-c", source)
    hold_served(ran.code, ran.stderr)
    values = {one["key"]["within"]: one["emits"]["count"]["value"] for one in ran.result["series"]}
    assert values["do_nanosleep"] == 200
    assert 200 <= values["schedule"] <= ran.result["fields"]["counted"] == ran.result["events_seen"]
