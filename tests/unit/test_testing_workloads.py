"""The workloads: each does what it says, to the page and the nanosecond, and reports it truly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omn_core.testing import workloads
from omn_core.testing.stepped import VARIABLE, Running, Workload, WorkloadError

Start = Callable[[Workload], Running]


def read_status(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="surrogateescape") as file:
        return next(line.partition(":")[2].strip() for line in file if line.startswith(f"{name}:"))


def read_resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1])


def test_touching_pages_faults_once_for_each(workload: Start) -> None:
    """The kernel counts a fault for each fresh page, and the resident set grows by as many."""
    child = workload(workloads.touch_pages(5_000))
    child.wait("ready")
    before = read_resident(child.pid)
    child.release()
    facts = child.wait("touched")
    assert 5_000 <= facts["minflt"] <= 5_100
    assert read_resident(child.pid) - before == pytest.approx(5_000, abs=60)


def test_bytes_are_rounded_up_to_a_page() -> None:
    """One byte takes a page."""
    page = os.sysconf("SC_PAGESIZE")
    assert workloads.touch_bytes(page + 1).name == "touch 2 pages"


def test_shared_memory_is_mapped_by_two(workload: Start) -> None:
    """The fork's child maps the same pages, and is gone when the workload ends."""
    child = workload(workloads.share_bytes(8 << 20))
    facts = child.wait("shared")
    assert read_resident(facts["child"]) * os.sysconf("SC_PAGESIZE") >= 8 << 20
    assert child.finish() == 0
    assert not os.path.exists(f"/proc/{facts['child']}")


def test_a_spin_lasts_its_cpu_time_on_its_cpu(workload: Start) -> None:
    """What it reports is at least what was asked, on the one cpu it may run on."""
    cpu = min(os.sched_getaffinity(0))
    child = workload(workloads.spin(50_000_000, cpu=cpu))
    child.wait("ready")
    assert read_status(child.pid, "Cpus_allowed_list") == str(cpu)
    child.release()
    facts = child.wait("spun")
    assert facts["oncpu_ns"] == pytest.approx(50_000_000, abs=5_000_000)
    assert facts["wall_ns"] >= facts["oncpu_ns"] - 5_000_000


def test_threads_take_their_names_and_end(workload: Start) -> None:
    """The kernel has each name byte for byte; after the last step the threads are gone."""
    names = [b") R 1 (", b"\xff\n\x1b[0m"]
    child = workload(workloads.threads(names))
    tids = child.wait("ready")["tids"]
    for tid, name in zip(tids, names, strict=True):
        with open(f"/proc/{child.pid}/task/{tid}/comm", "rb") as file:
            assert file.read() == name + b"\n"
    for step in ("ran", "ended"):
        child.release()
        child.wait(step)
    assert os.listdir(f"/proc/{child.pid}/task") == [str(child.pid)]


def test_a_daemon_outlives_the_program_in_a_session_of_its_own(workload: Start) -> None:
    """The program ends; what it left behind is another session's and still runs."""
    child = workload(workloads.daemonise(20.0))
    daemon = child.wait("forked")["daemon"]
    try:
        assert child.finish() == 0
        assert os.getsid(daemon) != os.getsid(0)
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_blocks_are_read_and_written_where_they_are_said_to_be(tmp_path: Path, workload: Start) -> None:
    """Two read, and the one after them written over with the last of them; the rest of the file stands."""
    image = tmp_path / "image"
    image.write_bytes(b"".join(letter * 4096 for letter in (b"a", b"b", b"c", b"d")))
    child = workload(workloads.transfer_directly(str(image), 4096, reads=2, writes=1))
    child.wait("ready")
    child.release()
    child.wait("transferred")
    assert image.read_bytes() == b"".join(letter * 4096 for letter in (b"a", b"b", b"b", b"d"))


@pytest.mark.parametrize(("how", "status"), [({"code": 42}, 42), ({"signal_number": signal.SIGTERM}, -15)])
def test_an_end_is_the_one_asked_for(workload: Start, how: dict[str, int], status: int) -> None:
    """By a code or by a signal."""
    child = workload(workloads.end_with(**how))
    child.wait("ready")
    assert child.finish() == status


def test_a_workload_runs_free_without_pipes() -> None:
    """By its argv alone it stops nowhere and reports nothing."""
    done = subprocess.run(workloads.spin(1_000_000).argv, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_workload_that_ends_early_or_says_another_step_is_an_error(workload: Start) -> None:
    """A test that waits for what does not come is told what came instead."""
    child = workload(workloads.end_with(code=0))
    with pytest.raises(WorkloadError, match="step 'ready' came before 'spun'"):
        child.wait("spun")
    child.release()
    with pytest.raises(WorkloadError, match="it ended before step 'more'"):
        child.wait("more")


def test_a_workload_whose_tester_died_ends() -> None:
    """The pipe's end is the end: no workload is left waiting for somebody who is gone."""
    tell, teller = os.pipe()
    hear, report = os.pipe()
    environment = {**os.environ, VARIABLE: f"{tell},{report}"}
    argv = [sys.executable, "-c", workloads.spin(1).source]
    child = subprocess.Popen(argv, env=environment, pass_fds=(tell, report))
    os.close(tell)
    os.close(teller)
    assert child.wait(30) == 3
    os.close(hear)
    os.close(report)
