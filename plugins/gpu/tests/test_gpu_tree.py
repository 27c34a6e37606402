"""What a program holds and uses of a device: real processes, found as they come and go, and the driver's lists."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import attrs
import pytest
from nvml_stub import MIB, Stub

from omn_core.api import BoundTarget, ProcessHandle, Target, TargetGone
from omn_core.testing.harness import Driver, bind_processes
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]

FAMILY = """
import os, signal
def tell(text):
    os.write(1, f"{text}\\n".encode())
def wait():
    os.read(0, 1)
tell(os.getpid())
wait()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        while True:
            signal.pause()
    tell(f"{os.getpid()} {grandchild}")
    wait()
    os._exit(0)
os.waitpid(child, 0)
tell("orphaned")
wait()
"""


@attrs.define
class Family:
    """A program that forks a child, which forks a grandchild, and then ends, so that the grandchild is an orphan."""

    process: subprocess.Popen[bytes]
    pid: int
    child: int = 0
    grandchild: int = 0

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def _go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def grow(self) -> None:
        """Have the child and the grandchild made."""
        self._go_on()
        self.child, self.grandchild = (int(word) for word in self._line().split())

    def orphan(self) -> None:
        """Have the child end, and be waited for."""
        self._go_on()
        assert self._line() == "orphaned\n"


@pytest.fixture
def family() -> Iterator[Family]:
    """The program, at its first step; all of it is ended with the test."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-S", "-c", FAMILY], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        made = Family(process, int(process.stdout.readline()))
        yield made
        for pid in (made.grandchild, made.child):
            if pid:
                subprocess.run(["kill", "-9", str(pid)], stderr=subprocess.DEVNULL, check=False)
        process.kill()


@pytest.fixture
def target(family: Family) -> BoundTarget:
    """The program, attached to."""
    return bind_processes(family.pid)


def hold(**amounts: int | str) -> str:
    return " ".join(f"{pid.removeprefix('p')}:{amount}" for pid, amount in amounts.items())


@pytest.mark.spec("GPU-1", "SRC-6", "EVT-4")
def test_memory_is_that_of_the_tree_at_each_reading(
    stub: Stub, drive: Drive, family: Family, target: BoundTarget
) -> None:
    """A child that came counts, one that ended does not, an orphan that was seen stays; nobody else's is in it."""
    stub.set(compute=hold(p1=7 * MIB))
    with drive("gpu.mem", target, backend="vendor:nvml:process") as driver:
        assert [row["bytes"] for row in driver.sample()] == [0]
        family.grow()
        held = {f"p{family.pid}": 5 * MIB, f"p{family.child}": 3 * MIB, f"p{family.grandchild}": 2 * MIB}
        stub.set(compute=hold(p1=7 * MIB, **held))
        assert [(row["gpu"], row["bytes"]) for row in driver.sample()] == [(0, 10 * MIB)]
        family.orphan()
        assert [row["bytes"] for row in driver.sample()] == [7 * MIB]


def test_memory_by_process(stub: Stub, drive: Drive, family: Family, target: BoundTarget) -> None:
    """A row of each process of the tree that holds some."""
    family.grow()
    stub.set(compute=hold(p1=7 * MIB, **{f"p{family.pid}": MIB, f"p{family.grandchild}": 2 * MIB}))
    with drive("gpu.mem", target, "task", backend="vendor:nvml:process") as driver:
        rows = {row["task"]: row["bytes"] for row in driver.sample()}
    assert rows == {family.pid: MIB, family.grandchild: 2 * MIB}


def test_memory_of_several_devices_is_a_sum_or_apart(
    stub: Stub, drive: Drive, family: Family, target: BoundTarget
) -> None:
    """By what is asked."""
    stub.add_second()
    stub.set({f"{index}.compute": f"{family.pid}:{amount}" for index, amount in ((0, 3), (1, 4))})
    with (
        drive("gpu.mem", target, backend="vendor:nvml:process") as whole,
        drive("gpu.mem", bind_processes(family.pid), "gpu", backend="vendor:nvml:process") as divided,
    ):
        assert [row["bytes"] for row in whole.sample()] == [7]
        assert [(row["gpu"], row["bytes"]) for row in divided.sample()] == [(0, 3), (1, 4)]


def test_an_amount_that_is_not_told_leaves_the_sum_unknown(
    stub: Stub, drive: Drive, family: Family, target: BoundTarget
) -> None:
    """A sum of what is known would be too little: no row, and counted."""
    family.grow()
    stub.set(compute=hold(**{f"p{family.pid}": MIB, f"p{family.child}": "-"}))
    with drive("gpu.mem", target, backend="vendor:nvml:process") as driver:
        assert driver.sample() == []
        assert driver.collector.losses().reasons == ("gpu 0 (Stub One) does not tell how much memory a process holds",)


@pytest.mark.spec("GPU-1")
def test_use_is_that_of_the_tree(stub: Stub, drive: Drive, family: Family, target: BoundTarget) -> None:
    """The shares of its processes together; a process that is not named used nothing, where anything was sampled."""
    family.grow()
    stub.set(shares=f"1000:{family.pid}:90", samples="1000:90")
    with drive("gpu.util", target, backend="vendor:nvml:process") as driver:
        stub.set(shares=f"2000:{family.pid}:30:4 2000:{family.child}:20 2000:1:50", samples="2000:99")
        (row,) = driver.sample()
        assert (row["util"], row["mem_util"]) == (pytest.approx(0.5), pytest.approx(0.04))
        stub.set(shares="3000:1:50", samples="3000:50")
        assert [row["util"] for row in driver.sample()] == [0]
        stub.set(shares="", samples="4000:0")
        assert [row["util"] for row in driver.sample()] == [0]
        assert driver.sample() == []
        assert driver.collector.fields()["repeated_samples"] >= 1


def test_the_end_of_the_last_process_is_the_end_of_the_request(
    stub: Stub, drive: Drive, family: Family, target: BoundTarget
) -> None:
    """No zero of a program that is gone."""
    stub.set(compute="")
    with drive("gpu.mem", target, backend="vendor:nvml:process") as driver:
        driver.sample()
        family.process.kill()
        family.process.wait()
        with pytest.raises(TargetGone):
            driver.sample()


def test_in_a_pid_namespace_of_its_own_silence_is_no_zero(stub: Stub, drive: Drive, sysroot: Sysroot) -> None:
    """Some drivers name processes by other numbers: a row comes when the driver has named one of the target's."""
    sysroot.write_process(7).write("/proc/7/task/7/children", "").link("/proc/self/ns/pid", "pid:[4026532000]")
    target = BoundTarget(Target("pid", (7,)), "process", (ProcessHandle(7, None, 100),))
    stub.set(compute="4711:100")
    with drive("gpu.mem", target, backend="vendor:nvml:process", sysroot=sysroot) as driver:
        assert driver.sample() == []
        assert "the machine's first pid namespace" in driver.collector.losses().reasons[0]
        stub.set(compute="7:100")
        assert [row["bytes"] for row in driver.sample()] == [100]
        stub.set(compute="")
        assert [row["bytes"] for row in driver.sample()] == [0]
