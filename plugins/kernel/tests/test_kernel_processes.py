"""Following processes: rounds, ends, last words, failed reads, names."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from omn_kernel.followed import ParsedFile, Round
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessCollector, ProcessCounterCollector, ProcessTreeCollector
from omn_kernel.procfs.process import ProcessFile
from shapes import make_resolved

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.testing.harness import Driver, bind_processes, bind_thread
from omn_core.testing.sysroot import Sysroot


def parse_counter(content: bytes) -> Mapping[str, int] | None:
    return {"counted": int(content)} if content else None


class Gauge(ProcessTreeCollector[Mapping[str, int]]):
    """A number of each process."""

    reads_at_open = True

    def open_source(self, pid: int, tid: int | None) -> ParsedFile[Mapping[str, int]]:
        file = ProcessFile(self.context.sysroot, pid, "number", tid=tid, bound_to_memory=True)
        return ParsedFile("number", file, parse_counter)

    def add_up(self, rows: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
        return {"counted": sum(row["counted"] for row in rows)}

    def make_rows(self, content: Round[Mapping[str, int]], at_ns: int) -> Rows:
        keys, named = self.identify(content.processes)
        return Rows(keys, {"value": [row["counted"] for row in content.rows], **named})


class Counter(ProcessCounterCollector):
    """What each process's number grew by."""

    open_source = Gauge.open_source

    def make_rows(self, content: Round[Mapping[str, int]], at_ns: int) -> Rows:
        grown = self.advance(content)
        keys, named = self.identify(list(grown))
        return Rows(keys, {"value": [growth.by["counted"] for growth in grown.values()], **named}) if grown else Rows()


class Flags(Counter):
    """A counter of a live process that every kernel has."""

    def open_source(self, pid: int, tid: int | None) -> ParsedFile[Mapping[str, int]]:
        return ParsedFile("stat", ProcessFile("/", pid, "stat", tid=tid), lambda _: {"counted": 1})


@pytest.fixture
def machine(sysroot: Sysroot) -> Sysroot:
    """Two processes with a number each."""
    for pid in (7, 8):
        sysroot.write_process(pid)
        sysroot.write(f"/proc/{pid}/number", "10").write(f"/proc/{pid}/comm", f"task {pid}\n")
    return sysroot


def drive(collector: ProcessCollector[Any], sysroot: object, *pids: int, keys: tuple[str, ...] = ()) -> Driver:
    target = BoundTarget(Target("pid", pids), "process", tuple(ProcessHandle(pid, None, 100) for pid in pids))
    return Driver(collector, make_resolved(target=target.target, keys=keys), target, sysroot=str(sysroot))


@pytest.mark.spec("RUN-7")
def test_what_ends_leaves_the_others_and_the_last_ends_the_request(machine: Sysroot) -> None:
    """A process with nothing left to read is no loss, and its keys go with it."""
    with drive(Gauge(), machine, 7, 8, keys=("task",)) as driver:
        assert [(row["task"], row["value"]) for row in driver.sample()] == [(7, 10), (8, 10)]
        machine.write("/proc/7/number", "")
        assert [(row["task"], row["pid"]) for row in driver.sample()] == [(8, 8)]
        machine.write("/proc/8/number", "")
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


@pytest.mark.spec("RUN-6")
def test_a_failed_read_of_a_running_process_is_counted_and_its_interval_goes_on(machine: Sysroot) -> None:
    """It is left out of that round; the next reading holds what it counted in both intervals."""
    with drive(Counter(), machine, 7, 8, keys=("task",)) as driver:
        machine.remove("/proc/7/number").write("/proc/8/number", "11")
        assert [(row["task"], row["value"]) for row in driver.sample()] == [(8, 1)]
        machine.write("/proc/7/number", "14")
        assert [(row["task"], row["value"]) for row in driver.sample()] == [(7, 4), (8, 0)]
        losses = driver.collector.losses()
    assert (losses.failed_reads, losses.reasons) == (1, ("number: No such file or directory",))


@pytest.mark.spec("EVT-5")
def test_a_counter_of_one_process_that_steps_back_takes_its_row_alone(machine: Sysroot) -> None:
    """The loss names the counter and the task."""
    with drive(Counter(), machine, 7, 8, keys=("task",)) as driver:
        machine.write("/proc/7/number", "3").write("/proc/8/number", "12")
        assert [(row["task"], row["value"]) for row in driver.sample()] == [(8, 2)]
        losses = driver.collector.losses()
    assert losses.reasons == ("the kernel's counted of task 7 stepped back, and that interval is unknown",)


@pytest.mark.spec("RUN-7")
def test_a_zombies_counters_are_read_once_more() -> None:
    """A live process that exits and is not reaped gives its last row, and then the request ends."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    target = bind_processes(child.pid)
    with Driver(Flags(), make_resolved(target=target.target), target) as driver:
        assert len(driver.sample()) == 1
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert len(driver.sample()) == 1
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty
    child.wait()


@pytest.mark.spec("RUN-6")
def test_a_process_reaped_before_its_last_reading_is_a_counted_loss() -> None:
    """What it counted since its last reading went with it; one that was gone at the attach had nothing to lose."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    target = bind_processes(child.pid)
    with Driver(Flags(), make_resolved(target=target.target), target) as driver:
        child.communicate()
        with pytest.raises(TargetGone):
            driver.sample()
        losses = driver.collector.losses()
    assert losses.reasons == ("a process was reaped by its parent before its last reading",)
    assert losses.failed_reads == 1


def test_a_name_is_read_where_the_answer_can_show_it(machine: Sysroot) -> None:
    """As it stands at the reading."""
    with drive(Gauge(), machine, 7, 8, keys=("comm",)) as driver:
        stat = machine.path("/proc/8/stat")
        stat.write_bytes(stat.read_bytes().replace(b"(program)", b"(renamed)"))
        assert [row.get("comm") for row in driver.sample()] == ["program", "renamed"]
    with drive(Gauge(), machine, 7) as driver:
        assert "comm" not in driver.sample()[0]


@pytest.mark.spec("RUN-6")
def test_a_thread_that_ended_before_its_last_reading_is_a_counted_loss_of_its_own() -> None:
    """No parent reaps a thread: its counters are gone with it, and nothing else is said."""
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    assert thread.native_id is not None
    target = bind_thread(os.getpid(), thread.native_id)
    with Driver(Flags(), make_resolved(target=target.target), target) as driver:
        assert len(driver.sample()) == 1
        leave.set()
        thread.join()
        while os.path.exists(f"/proc/self/task/{thread.native_id}"):
            pass  # the kernel takes a thread out of its process a moment after it was joined
        with pytest.raises(TargetGone):
            driver.sample()
        losses = driver.collector.losses()
    assert losses.reasons == ("the thread ended between two readings, and its last interval is in no row",)
    assert losses.failed_reads == 1
