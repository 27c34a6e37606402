"""The collector of pressure sources, on the machine and on a cgroup, whatever the resource."""

from __future__ import annotations

import pytest
from omn_kernel.cgroup import CgroupPlace
from omn_kernel.pressure import PressureCollector
from shapes import make_resolved

from omn_core.api import BoundTarget, MachineRefused, Target
from omn_core.testing.harness import Driver, bind_machine
from omn_core.testing.sysroot import Sysroot

SECOND = 1_000_000_000
LINES = "some avg10=1.50 avg60=0.50 avg300=0.10 total={}\nfull avg10=0.50 avg60=0.00 avg300=0.00 total={}\n"


class Waiting(PressureCollector):
    """A resource that has both lines everywhere."""

    resource = "io"


class HalfWaiting(PressureCollector):
    """A resource whose full line means nothing on the machine."""

    resource = "io"
    machine_lines = ("some",)


def drive(collector: PressureCollector, sysroot: Sysroot, now: list[int], place: CgroupPlace | None = None) -> Driver:
    target = bind_machine() if place is None else BoundTarget(Target("cgroup", place.path), "cgroup", place=place)
    resolved = make_resolved(target=target.target)
    return Driver(collector, resolved, target, sysroot=str(sysroot), clock=lambda: now[0])


@pytest.mark.spec("RUN-10")
def test_waiting_is_a_share_of_its_own_interval(sysroot: Sysroot) -> None:
    """Each reading states the length it is a share of, so that a short last interval weighs as little as it is."""
    sysroot.write("/proc/pressure/io", LINES.format(1000, 100))
    now = [0]
    with drive(Waiting(), sysroot, now) as driver:
        for at_ns, some_us, full_us in ((SECOND, 251_000, 50_100), (SECOND + SECOND // 2, 501_000, 50_100)):
            now[0] = at_ns
            sysroot.write("/proc/pressure/io", LINES.format(some_us, full_us))
            driver.sample()
    first, second = driver.rows
    assert (first["stall_ratio"], first["full_ratio"], first["interval_ns"]) == (0.25, 0.05, SECOND)
    assert (second["stall_ratio"], second["full_ratio"], second["interval_ns"]) == (0.5, 0.0, SECOND // 2)
    assert (first["some_ns"], first["some_avg10"], first["full_avg10"]) == (SECOND // 4, 0.015, 0.005)


@pytest.mark.spec("EVT-5")
def test_a_total_that_steps_back_leaves_its_interval_unknown(sysroot: Sysroot) -> None:
    """No row of zero: the reading is a failed one, by the line's name."""
    sysroot.write("/proc/pressure/io", LINES.format(1000, 100))
    now = [0]
    with drive(Waiting(), sysroot, now) as driver:
        sysroot.write("/proc/pressure/io", LINES.format(900, 100))
        assert driver.sample() == []
        losses = driver.collector.losses()
    assert losses.reasons == (
        "the kernel's some of io.pressure of the machine stepped back, and that interval is unknown",
    )


def test_a_line_that_means_nothing_on_the_machine_is_left_out_there_alone(sysroot: Sysroot) -> None:
    """A cgroup's own full line is a figure."""
    sysroot.write("/proc/pressure/io", LINES.format(1000, 0)).write("/cg/io.pressure", LINES.format(1000, 0))
    place = CgroupPlace("/job", str(sysroot.path("/cg")))
    for where, has_full in ((None, False), (place, True)):
        now = [0]
        with drive(HalfWaiting(), sysroot, now, where) as driver:
            now[0] = SECOND
            (row,) = driver.sample()
        assert any(name.startswith("full") for name in row) is has_full
        assert row.get("cgroup") == (None if where is None else "/job")


def test_a_cgroup_of_version_1_has_no_pressure(sysroot: Sysroot) -> None:
    """The refusal names the file and says where it is kept."""
    place = CgroupPlace("/job", legacy={"memory": str(sysroot.path("/cg"))})
    with pytest.raises(MachineRefused, match=r"'/job' has no io\.pressure: pressure is kept on cgroup2 alone"):
        drive(Waiting(), sysroot, [0], place).__enter__()
