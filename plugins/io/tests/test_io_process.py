"""io.process: what a process's own account says, of a thread, of children, of a zombie, and to whom it is closed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from another_user import run_as_another_user

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes, bind_thread, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import end_with, threads

Drive = Callable[..., Driver]
Start = Callable[[Workload], Running]
IO = "rchar: {0}\nwchar: {1}\nsyscr: {2}\nsyscw: {3}\nread_bytes: {4}\nwrite_bytes: {5}\ncancelled_write_bytes: {6}\n"


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of io.process."""

    def make(target: BoundTarget, *, sysroot: object = "/", mode: str = "poll", keys: tuple[str, ...] = ()) -> Driver:
        resolved = resolve_onto(catalog.entries["io.process"], "fs:proc:io", target.target, mode=mode, keys=keys)
        factory = registry.load(registry.collectors["io.process", "fs:proc:io"].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot))

    return make


def write_io(sysroot: Sysroot, pid: int, *values: int, state: str = "S") -> None:
    sysroot.write_process(pid, state=state).write(f"/proc/{pid}/io", IO.format(*values))


def make_target(*pids: int) -> BoundTarget:
    return BoundTarget(Target("pid", pids), "process", tuple(ProcessHandle(pid, None, 100) for pid in pids))


@pytest.mark.spec("IO-1", "RUN-10")
def test_every_counter_is_its_growth_under_the_kernels_name(sysroot: Sysroot, drive: Drive) -> None:
    """Read and written bytes make the value; each counter stands beside it, from the attach on."""
    write_io(sysroot, 7, 100, 200, 10, 20, 4096, 8192, 0)
    with drive(make_target(7), sysroot=sysroot) as driver:
        write_io(sysroot, 7, 101, 202, 13, 24, 8192, 16384, 512)
        (row,) = driver.sample()
    del row["ts_ns"]
    assert row == {
        "task": 7,
        "pid": 7,
        "bytes": 12288,
        "read_bytes": 4096,
        "write_bytes": 8192,
        "cancelled_write_bytes": 512,
        "rchar": 1,
        "wchar": 2,
        "syscr": 3,
        "syscw": 4,
    }


@pytest.mark.spec("EVT-5")
def test_an_account_that_steps_back_makes_no_row(sysroot: Sysroot, drive: Drive) -> None:
    """The other process stands."""
    write_io(sysroot, 7, 100, 0, 0, 0, 0, 0, 0)
    write_io(sysroot, 8, 100, 0, 0, 0, 0, 0, 0)
    with drive(make_target(7, 8), sysroot=sysroot, keys=("task",)) as driver:
        write_io(sysroot, 7, 99, 0, 0, 0, 0, 0, 0)
        write_io(sysroot, 8, 105, 0, 0, 0, 0, 0, 0)
        assert [(row["task"], row["rchar"]) for row in driver.sample()] == [(8, 5)]
        assert driver.collector.losses().reasons == (
            "the kernel's rchar of task 7 stepped back, and that interval is unknown",
        )


READER = """
import os, sys
source = os.open({path!r}, os.O_RDONLY)
os.write(1, b"r")
os.read(0, 1)
for _ in range(50):
    assert len(os.pread(source, 1000, 0)) == 1000
for _ in range(30):
    os.write(2, b"x" * 100)
os.write(1, b"d")
os.read(0, 1)
"""


def test_calls_and_their_bytes_are_those_that_were_made(tmp_path: Path, drive: Drive) -> None:
    """50 reads of 1000 bytes and 30 writes of 100, between two steps of one byte each way."""
    (tmp_path / "file").write_bytes(b"x" * 1000)
    argv = [sys.executable, "-S", "-c", READER.format(path=str(tmp_path / "file"))]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"
        with drive(bind_processes(child.pid)) as driver:
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert child.stdout.read(1) == b"d"
            (row,) = driver.sample()
        child.stdin.close()
    assert (row["rchar"], row["wchar"]) == (50 * 1000 + 1, 30 * 100 + 1)
    assert (row["syscr"], row["syscw"]) == (51, 31)


PARENT = """
import os, sys
os.write(1, b"r")
os.read(0, 1)
child = os.fork()
if child == 0:
    source = os.open({path!r}, os.O_RDONLY)
    for _ in range(10):
        os.pread(source, 100000, 0)
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
os.write(1, b"e")
os.read(0, 1)
os.waitpid(child, 0)
os.write(1, b"w")
os.read(0, 1)
"""


def test_a_child_counts_as_it_runs_and_once(tmp_path: Path, drive: Drive) -> None:
    """As a zombie it is in the row, and the wait, which adds it whole to its parent's account, adds nothing more."""
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    argv = [sys.executable, "-S", "-c", PARENT.format(path=str(tmp_path / "file"))]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.read(1) == b"r"
        with drive(bind_processes(child.pid)) as driver:
            found = []
            for step in (b"e", b"w"):
                child.stdin.write(b"\n")
                child.stdin.flush()
                assert child.stdout.read(1) == step
                found.append(driver.sample()[0]["rchar"])
        child.stdin.close()
    assert found == [1 + 10 * 100_000, 1]


BEGUN = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.{handler})
go, tell = os.pipe()
source = os.open({path!r}, os.O_RDONLY)
child = os.fork()
if child == 0:
    os.close(tell)
    for count in (5, 10, 3):
        for _ in range(count):
            os.pread(source, 100000, 0)
        os.write(1, b"c")
        os.read(go, 1)
    os._exit(0)
for _ in range(3):
    os.read(0, 1)
    os.write(tell, b"x")
try:
    os.waitpid(child, 0)
except ChildProcessError:
    pass
os.write(1, b"w")
os.read(0, 1)
"""


@pytest.mark.parametrize(("handler", "lost"), [("SIG_DFL", 0), ("SIG_IGN", 1)])
def test_a_tree_that_runs_already_counts_from_the_attach(tmp_path: Path, drive: Drive, handler: str, lost: int) -> None:
    """What a child read before is in no row. What it did after its last reading its parent has who waited for it.

    Where nobody waits the kernel gives it to nobody: that is a loss, and what was read of it stays.
    """
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    argv = [sys.executable, "-S", "-c", BEGUN.format(path=str(tmp_path / "file"), handler=handler)]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.read(1) == b"c"
        with drive(bind_processes(child.pid)) as driver:
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert child.stdout.read(1) == b"c"
            assert driver.sample()[0]["rchar"] == 1 + 1 + 10 * 100_000
            child.stdin.write(b"\n\n")
            child.stdin.flush()
            assert child.stdout.read(2) == b"cw"
            assert driver.sample()[0]["rchar"] == 2 if lost else 4 + 3 * 100_000
            losses = driver.collector.losses()
        child.stdin.close()
    assert losses.failed_reads == lost
    assert all("nobody of its tree" in reason for reason in losses.reasons)


def test_a_thread_has_an_account_of_its_own(workload: Start, drive: Drive) -> None:
    """Under its own number; its end is the end of the request."""
    program = workload(threads([b"one", b"two"]))
    first, _ = program.wait("ready")["tids"]
    with drive(bind_thread(program.pid, first)) as driver:
        (row,) = driver.sample()
        assert (row["task"], row["pid"]) == (first, program.pid)
        program.release()
        program.wait("ran")
        program.release()
        program.wait("ended")
        with pytest.raises(TargetGone):
            driver.sample()


@pytest.mark.spec("RUN-7")
def test_a_zombies_account_is_its_closing_reading(workload: Start, drive: Drive) -> None:
    """A launched program keeps it until it is reaped: the last interval is whole, and nothing is lost."""
    program = workload(end_with(0))
    program.wait("ready")
    with drive(bind_processes(program.pid, launched=True), mode="count") as driver:
        program.release()
        program.wait_exited()
        (row,) = driver.sample()
        assert row["rchar"] == 1
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().is_empty


def test_a_process_that_is_reaped_first_is_said(drive: Drive) -> None:
    """What it did after its last reading is a failed one."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with drive(bind_processes(child.pid)) as driver:
        child.communicate(b"\n")
        with pytest.raises(TargetGone):
            driver.sample()
        assert "reaped" in driver.collector.losses().reasons[0]


def test_another_users_process_names_both_capabilities() -> None:
    """The file has mode 0400 and the kernel asks for ptrace access: refused before anything runs, with the grant."""
    printed = run_as_another_user(
        """
        from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.testing.harness import Driver, resolve_onto
        registry = discover()
        entry = load_catalog(registry).entries['io.process']
        factory = registry.load(registry.collectors['io.process', 'fs:proc:io'].factory)
        """,
        """
        target = BoundTarget(Target('pid', (1,)), 'process', (ProcessHandle(1, None, 0),))
        try:
            Driver(factory(), resolve_onto(entry, 'fs:proc:io', target.target), target).__enter__()
        except MachineRefused as refused:
            print(refused)
        """,
    )
    assert "process 1 does not let this user read its io" in printed
    assert "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH are missing" in printed
    assert "--ambient-caps=+sys_ptrace,+dac_read_search" in printed


@pytest.mark.spec("RUN-15")
def test_a_launched_program_is_measured_to_its_end(omn: Command, tmp_path: Path) -> None:
    """From the command line: 4 MiB copied are 4 MiB of calls each way, and made dirty by the program itself."""
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(b"x" * (4 << 20))
    arguments = ("-m", "count", "-e", "count", "--value", "wchar", "--format", "json", "--")
    ran = omn("io.process", *arguments, "dd", f"if={source}", f"of={copy}", "bs=64k", "status=none")
    assert ran.code == 0, ran.stderr
    assert ran.result["series"][0]["emits"]["count"]["value"] == 4 << 20
    assert ran.result["losses"]["failed_reads"] == 0
