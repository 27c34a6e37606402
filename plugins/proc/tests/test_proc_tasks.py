"""proc.tasks: the table against ps and schedstat on this machine, and its rules on made ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from another_user import run_as_another_user
from hypothesis import given
from hypothesis import strategies as some
from omn_kernel.procfs.task import TICK_NS
from omn_kernel.task_files import MOST_KEPT
from omn_proc.task_table import parse_task_fields
from omn_proc.tasks import MachineTasks, ProcessTasks

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, bind_thread, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import rename, spin, threads

PAGE = os.sysconf("SC_PAGE_SIZE")
SECOND = 1_000_000_000
BACKENDS = {MachineTasks: "fs:proc:table", ProcessTasks: "fs:proc:task"}
Start = Callable[[Workload], Running]


def drive(
    catalog: Catalog,
    target: BoundTarget,
    *,
    sysroot: object = "/",
    emit: str = "raw",
    mode: str = "poll",
    clock: Callable[[], int] | None = None,
) -> Driver:
    collector = MachineTasks() if target.scope == "system" else ProcessTasks()
    resolved = resolve_onto(catalog.entries["proc.tasks"], BACKENDS[type(collector)], target.target, mode=mode)
    resolved = attrs.evolve(resolved, emits=(EmitSpec(emit),))
    if clock is None:
        return Driver(collector, resolved, target, sysroot=str(sysroot))
    return Driver(collector, resolved, target, sysroot=str(sysroot), clock=clock)


def write_machine(tree: Sysroot) -> Sysroot:
    tree.write("/proc/uptime", "50.00 99.00\n").write("/proc/stat", "cpu 1 2 3 4\n").write("/proc/self/stat", "")
    tree.write_process(1, comm=b"init", utime=10, stime=5, start_ticks=100, ppid=0)
    tree.write_process(70, comm=b"od) R 1 (d\n", state="D", utime=100, threads=3, start_ticks=4000)
    return tree.write("/proc/1/statm", "10 7 3 1 0 2 0\n").write("/proc/70/statm", "0 0 0 0 0 0 0\n")


@pytest.fixture
def machine(sysroot: Sysroot) -> Sysroot:
    """Two processes 50 s after the start of the machine, one with an odd name, and what is no process beside them."""
    return write_machine(sysroot)


@pytest.mark.spec("SRC-5", "RUN-10", "EVT-5")
def test_busy_is_since_the_last_reading_or_over_a_life(machine: Sysroot, catalog: Catalog) -> None:
    """What was there at the attach counts from there; what came since counts from its own start, and says so."""
    now = [0]
    with drive(catalog, bind_machine(), sysroot=machine, clock=lambda: now[0]) as driver:
        now[0] = 2 * SECOND
        machine.write("/proc/uptime", "52.00 99.00\n")
        machine.write_process(1, comm=b"init", utime=70, stime=45, start_ticks=100, ppid=0)
        machine.write_process(80, comm=b"new", utime=30, start_ticks=5100)
        rows = {row["task"]: row for row in driver.sample()}
    assert (rows[1]["busy"], rows[1]["oncpu_ns"], rows[1]["since"]) == (0.5, 100 * TICK_NS, "poll")
    assert (rows[1]["interval_ns"], rows[1]["age_ns"]) == (2 * SECOND, 51 * SECOND)
    assert (rows[70]["busy"], rows[70]["since"]) == (0.0, "poll")
    assert (rows[80]["busy"], rows[80]["since"], rows[80]["interval_ns"]) == (0.3, "life", SECOND)


@pytest.mark.spec("SRC-5")
def test_a_snapshot_is_over_lives(machine: Sysroot, catalog: Catalog) -> None:
    """One reading has no interval: each share is over the task's own life, which stands beside it."""
    with drive(catalog, bind_machine(), sysroot=machine, mode="snapshot", clock=lambda: 0) as driver:
        rows = {row["task"]: row for row in driver.sample()}
    assert {row["since"] for row in rows.values()} == {"life"}
    assert (rows[70]["busy"], rows[70]["age_ns"]) == (0.1, 10 * SECOND)
    assert all("interval_ns" not in row for row in rows.values())


@pytest.mark.spec("PRC-1", "EVT-5")
def test_a_row_says_what_the_files_say(machine: Sysroot, catalog: Catalog) -> None:
    """Name byte for byte, state, parent, threads, user; no resident set of zero for what has no memory."""
    with drive(catalog, bind_machine(), sysroot=machine) as driver:
        first, odd = sorted(driver.sample(), key=lambda row: row["task"])
    assert (first["comm"], first["state"], first["ppid"], first["threads"]) == ("init", "S", 0, 1)
    assert (first["rss_bytes"], first["user"], first["pid"]) == (7 * PAGE, os.getuid(), 1)
    assert (odd["comm"], odd["state"], odd["threads"]) == ("od) R 1 (d\n", "D", 3)
    assert "rss_bytes" not in odd


@pytest.mark.spec("RUN-6", "RUN-7")
def test_a_number_that_passed_on_and_a_task_that_went_are_counted(machine: Sysroot, catalog: Catalog) -> None:
    """Another task of the same number has a life of its own; neither end is a loss, and both are counted."""
    with drive(catalog, bind_machine(), sysroot=machine) as driver:
        machine.write_process(1, comm=b"other", utime=1, start_ticks=4999)
        machine.remove("/proc/70")
        (row,) = driver.sample()
        assert (row["since"], row["oncpu_ns"], row["comm"]) == ("life", TICK_NS, "other")
        assert driver.collector.fields() == {"tasks_ended": 2}
        assert driver.collector.losses().is_empty


@pytest.mark.spec("EVT-5")
def test_ticks_that_step_back_make_no_row(machine: Sysroot, catalog: Catalog) -> None:
    """The interval is unknown, counted by the counter's name, and the next one is whole again."""
    with drive(catalog, bind_machine(), sysroot=machine) as driver:
        machine.write_process(1, utime=9, stime=5, start_ticks=100)
        assert [row["task"] for row in driver.sample()] == [70]
        machine.write_process(1, utime=12, stime=5, start_ticks=100)
        rows = {row["task"]: row for row in driver.sample()}
        assert rows[1]["oncpu_ns"] == 3 * TICK_NS
        losses = driver.collector.losses()
    assert (losses.failed_reads, losses.reasons) == (
        1,
        ("the kernel's utime and stime of task 1 stepped back, and that interval is unknown",),
    )


def test_what_nobody_sees_is_not_read(machine: Sysroot, catalog: Catalog) -> None:
    """The resident set, the user and the namespace each cost a read of every process: a summary of busy shows none."""
    with drive(catalog, bind_machine(), sysroot=machine, emit="summary") as driver:
        for row in driver.sample():
            assert set(row) == {"ts_ns", "task", "pid", "busy", "oncpu_ns", "interval_ns"}


def test_processes_that_proc_hides_are_said_to_be_missing(machine: Sysroot, catalog: Catalog) -> None:
    """Restricted is not absent: under hidepid the table of another user is not whole, and says so."""
    machine.write("/proc/self/mountinfo", "20 1 0:5 / /proc rw - proc proc rw,hidepid=2\n")
    with drive(catalog, bind_machine(), sysroot=machine) as driver:
        driver.sample()
        assert driver.collector.degradations() == ()
        machine.remove("/proc/1")
        driver.sample()
        (said,) = driver.collector.degradations()
    assert "hidepid" in said


IMPORTS = """
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.catalog.load import load_catalog
from omn_core.plugins import discover
from omn_proc.tasks import MachineTasks
import attrs
from omn_core.model.request import EmitSpec
entry = load_catalog(discover()).entries["proc.tasks"]
"""
SAMPLE = """
resolved = resolve_onto(entry, "fs:proc:table", bind_machine().target)
resolved = attrs.evolve(resolved, emits=(EmitSpec("raw"),))
with Driver(MachineTasks(), resolved, bind_machine(), sysroot=%r) as driver:
    rows = driver.sample()
    print(sorted(row["task"] for row in rows), driver.collector.degradations())
"""


def test_a_process_that_is_closed_to_this_user_is_said_to_be() -> None:
    """hidepid=1 lists every process and lets others' files be read by nobody else: they are counted as closed."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # a test's own folder is closed to the other user
        tree = write_machine(Sysroot(Path(folder)))
        tree.path("/proc/1/stat").chmod(0o400)
        printed = run_as_another_user(IMPORTS, SAMPLE % folder)
    assert printed.strip() == "[70] ('1 processes are closed to this user, and in no row',)"


@pytest.mark.spec("SRC-5", "PRC-1")
def test_the_machines_rows_are_the_processes_that_ps_lists(catalog: Catalog, workload: Start) -> None:
    """Every process that two listings of ps agree on is a row, and no row is of a process that neither shows."""
    if shutil.which("ps") is None:
        pytest.skip("ps (procps) is not installed here")
    child = workload(rename(b"seen by both"))
    child.wait("named")
    with drive(catalog, bind_machine()) as driver:
        before = list_by_ps()
        rows = {row["task"]: row for row in driver.sample()}
        after = list_by_ps()
    lasting = {pid for pid in before.keys() & after.keys() if before[pid] == after[pid]}
    assert lasting <= set(rows)
    assert child.pid in lasting
    for pid in lasting - {os.getpid()}:
        assert (rows[pid]["ppid"], rows[pid]["user"]) == before[pid], pid


def list_by_ps() -> dict[int, tuple[int, int]]:
    printed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,euid="], capture_output=True, check=True).stdout
    return {int(pid): (int(ppid), int(user)) for pid, ppid, user in (line.split() for line in printed.splitlines())}


@pytest.mark.spec("SRC-5")
def test_busy_of_a_spinner_is_schedstats_to_a_tick(catalog: Catalog, workload: Start) -> None:
    """What the rows of a process add up to is what the scheduler counted between two instants at which it waits."""
    child = workload(spin(400_000_000))
    child.wait("ready")
    with drive(catalog, bind_machine()) as driver:
        child.release()
        facts = child.wait("spun")
        (row,) = [row for row in driver.sample() if row["task"] == child.pid]
    assert row["oncpu_ns"] == pytest.approx(facts["oncpu_ns"], abs=3 * TICK_NS)
    assert row["busy"] == pytest.approx(row["oncpu_ns"] / row["interval_ns"])
    assert row["interval_ns"] >= facts["wall_ns"]


@pytest.mark.spec("SRC-5")
def test_a_process_is_a_row_for_each_thread(catalog: Catalog, workload: Start) -> None:
    """Each thread under its own name with what it ran itself; the resident set is the process's on each."""
    child = workload(threads([b"busy", b") Z 0 ("], 200_000_000))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_processes(child.pid)) as driver:
        child.release()
        facts = child.wait("ran")
        rows = {row["task"]: row for row in driver.sample()}
        child.release()
        child.wait("ended")
        assert [row["task"] for row in driver.sample()] == [child.pid]
        assert driver.collector.fields() == {"tasks_ended": 2}
    assert set(rows) == {child.pid, *tids}
    assert [rows[tid]["comm"] for tid in tids] == ["busy", ") Z 0 ("]
    assert {row["pid"] for row in rows.values()} == {child.pid}
    assert len({row["rss_bytes"] for row in rows.values()}) == 1
    for tid, spent in zip(tids, facts["oncpu_ns"], strict=True):
        assert rows[tid]["oncpu_ns"] == pytest.approx(spent, abs=3 * TICK_NS)


@pytest.mark.spec("SRC-5", "RUN-7")
def test_a_thread_target_is_that_thread_and_ends_with_it(catalog: Catalog, workload: Start) -> None:
    """Its siblings are in no row, and its end is the end of the request and no loss."""
    child = workload(threads([b"mine", b"other"]))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_thread(child.pid, tids[0])) as driver:
        assert [row["task"] for row in driver.sample()] == [tids[0]]
        child.release()
        child.wait("ran")
        child.release()
        child.wait("ended")
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-7")
def test_a_process_that_exited_is_read_once_more(catalog: Catalog, workload: Start) -> None:
    """Its last words are in a row of state Z; then it is followed no longer, and a second process goes on."""
    first, second = workload(spin(100_000_000)), workload(spin(0))
    for child in (first, second):
        child.wait("ready")
    with drive(catalog, bind_processes(first.pid, second.pid)) as driver:
        first.release()
        spent = first.wait("spun")["oncpu_ns"]
        first.release()
        first.wait_exited()
        rows = {row["task"]: row for row in driver.sample()}
        assert rows[first.pid]["state"] == "Z"
        assert rows[first.pid]["oncpu_ns"] >= spent - 2 * TICK_NS
        assert [row["task"] for row in driver.sample()] == [second.pid]
        second.release()
        second.wait("spun")
        second.finish()
        with pytest.raises(TargetGone):
            driver.sample()


def test_a_process_that_is_gone_is_refused_before_anything_runs(catalog: Catalog) -> None:
    """A number that names nothing has no baseline."""
    target = BoundTarget(Target("pid", (4_000_000,)), "process", (ProcessHandle(4_000_000, None, 1),))
    with pytest.raises(MachineRefused, match="ended before it could be read"):
        drive(catalog, target).__enter__()


def test_files_past_the_bound_are_opened_each_time(
    catalog: Catalog, workload: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine of more processes than descriptors reads them all the same, and the limit is put back."""
    assert MOST_KEPT > 300
    monkeypatch.setattr("omn_kernel.task_files.MOST_KEPT", 2)
    limits = Path("/proc/self/limits").read_bytes()
    child = workload(threads([b"t%d" % index for index in range(6)]))
    tids = child.wait("ready")["tids"]
    with drive(catalog, bind_processes(child.pid)) as driver:
        for _ in range(2):
            assert {row["task"] for row in driver.sample()} == {child.pid, *tids}
    assert Path("/proc/self/limits").read_bytes() == limits


@given(
    some.binary(max_size=64).filter(lambda comm: b"\0" not in comm),
    some.lists(some.integers(0, (1 << 64) - 1), min_size=24, max_size=50),
)
def test_any_name_and_any_number_of_fields_parse(comm: bytes, numbers: list[int]) -> None:
    """Whatever a task calls itself, and however many fields a kernel writes after those that are read."""
    content = b"7 (%s) R %s\n" % (comm, b" ".join(b"%d" % number for number in numbers))
    name, fields = parse_task_fields(content)
    assert name == comm
    assert fields[0] == b"R"
    assert [int(field) for field in fields[1:20]] == numbers[:19]


@pytest.mark.parametrize("content", [b"", b"7 (a) R 1 2 3\n", b"no task at all"])
def test_what_is_no_stat_is_said_to_be_none(content: bytes) -> None:
    """It raises with what it found, and no field is taken for another."""
    with pytest.raises(ValueError, match="no stat of a task"):
        parse_task_fields(content)


@pytest.mark.spec("SRC-5")
def test_the_table_from_the_command_line(omn: Command) -> None:
    """By name, filtered, and with its scope: the machine's rows are of the machine."""
    asked = ["--system", "-d", "120ms", "--interval", "50ms", "--keys", "comm,user", "--filter", "threads >= 1"]
    ran = omn("proc.tasks", *asked, "-e", "summary", "-e", "raw", "--format", "json")
    assert ran.code == 0, ran.stderr
    result = ran.result
    assert (result["scope"], result["value"], result["unit"]) == ("system", "busy", "ratio")
    assert {event["attrs"]["since"] for event in result["raw"]} <= {"poll", "life"}
    assert os.getpid() in {event["key"]["task"] for event in result["raw"]}
    assert "total" not in result["series"][0]["emits"]["summary"]
