"""Cpus that come and go, and the counters that sysfs keeps of each."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Mapping, Sequence

import attrs
import pytest
from omn_kernel.counters import Growth, Misses
from omn_kernel.cpus import FOLDER, CpuCounterCollector, CpuFiles, CpuPresence
from omn_kernel.polling import Rows

from omn_core.api import BoundTarget, MachineRefused, Names, RunContext, Target
from omn_core.testing.harness import bind_machine
from omn_core.testing.sysroot import Sysroot


def test_what_comes_and_goes_after_the_baseline_is_said() -> None:
    """The first reading is what there is; each later change has its sentence, once."""
    presence = CpuPresence((), Misses())
    assert presence.observe([0, 1, 2]) == []
    assert presence.observe([0, 2]) == [1]
    assert presence.observe([0, 1, 2]) == []
    assert presence.observe([0, 2]) == [1]
    assert presence.facts() == (
        "cpu 1 went offline in the window",
        "cpu 1 came online in the window, and counts from its first reading",
    )


def test_a_cpu_that_was_asked_for_and_is_gone_is_a_reading_that_gave_nothing() -> None:
    """It is counted at each reading; another cpu that goes is none."""
    misses = Misses()
    presence = CpuPresence((1,), misses)
    for present in ([1], [], []):
        presence.observe(present)
    assert (misses.count, misses.reasons) == (2, ["cpu 1 was offline at a reading"])
    assert [cpu for cpu in range(3) if presence.is_wanted(cpu)] == [1]


class Ticks(CpuCounterCollector):
    """A collector of one file of each cpu."""

    counted = "ticks"

    def list_names(self, cpu: int) -> Sequence[str]:
        return ["ticks", "kicks"]

    def make_rows(self, content: Mapping[int, Mapping[str, int]], at_ns: int) -> Rows:
        raise AssertionError("the readings alone are tested, and no rows are made of them")


@attrs.frozen
class Machine:
    """Cpus of a tree, each with its counters."""

    sysroot: Sysroot

    def write(self, cpus: Mapping[int, Mapping[str, int]]) -> None:
        """Put cpus online with their counters, every other one off with its folder."""
        self.sysroot.write(f"{FOLDER}/online", ",".join(map(str, cpus)) + "\n")
        for folder in self.sysroot.path(FOLDER).glob("cpu[0-9]*"):
            if int(folder.name.removeprefix("cpu")) not in cpus:
                self.sysroot.remove(f"{FOLDER}/{folder.name}")
        for cpu, counters in cpus.items():
            for name, value in counters.items():
                self.sysroot.write(f"{FOLDER}/cpu{cpu}/{name}", f"{value}\n")

    def attach(self, target: BoundTarget) -> Ticks:
        """Return a collector that has opened the files."""
        collector = Ticks()
        context = RunContext(Names(), lambda: 0, str(self.sysroot))
        collector.prepare(None, context)  # type: ignore[arg-type]  # nothing of the request is read
        collector.open_files(target)
        return collector


def test_counters_grow_by_cpu_and_a_cpu_that_comes_back_begins_anew(sysroot: Sysroot) -> None:
    """What was counted while it was away, and since, is nobody's figure: never one spike."""
    machine = Machine(sysroot)
    machine.write({0: {"ticks": 10}, 1: {"ticks": 20, "kicks": 1}})
    collector = machine.attach(bind_machine())
    assert collector.advance(collector.read(), 0) == {}
    machine.write({0: {"ticks": 13}, 1: {"ticks": 24, "kicks": 1}})
    grown = collector.advance(collector.read(), 1000)
    assert grown == {0: Growth(1000, {"ticks": 3}), 1: Growth(1000, {"ticks": 4, "kicks": 0})}
    machine.write({0: {"ticks": 14}})
    assert collector.advance(collector.read(), 2000).keys() == {0}
    machine.write({0: {"ticks": 15}, 1: {"ticks": 9_000_000}})
    assert collector.advance(collector.read(), 3000).keys() == {0}
    machine.write({0: {"ticks": 16}, 1: {"ticks": 9_000_002}})
    assert collector.advance(collector.read(), 4000)[1] == Growth(1000, {"ticks": 2})
    assert collector.facts() == (
        "cpu 1 went offline in the window",
        "cpu 1 came online in the window, and counts from its first reading",
    )
    assert collector.losses().is_empty
    collector.stop()


def test_a_machine_or_a_cpu_without_the_files_is_refused(sysroot: Sysroot) -> None:
    """By what it lacks; the other cpus do not stand in for the one that is named."""
    machine = Machine(sysroot)
    machine.write({0: {}, 1: {}})
    with pytest.raises(MachineRefused, match="no cpu here has ticks"):
        machine.attach(bind_machine())
    machine.write({0: {"ticks": 1}, 1: {}})
    with pytest.raises(MachineRefused, match="cpu 1 has no ticks"):
        machine.attach(BoundTarget(Target("cpu", (0, 1)), "cpu", cpus=(0, 1)))


def test_only_files_that_this_kernel_has_are_read(sysroot: Sysroot) -> None:
    """The others are absent, not zero; without any there is nothing to read."""
    sysroot.write(f"{FOLDER}/cpu3/ticks", "7\n")
    files = CpuFiles(str(sysroot), 3, ["ticks", "kicks"])
    assert files.read() == {"ticks": 7}
    assert not CpuFiles(str(sysroot), 4, ["ticks"])
    files.close()


def test_a_file_that_cannot_be_opened_is_not_one_that_is_missing(sysroot: Sysroot) -> None:
    """A machine of more files than may be open is refused with that, and no cpu is left out in silence."""
    machine = Machine(sysroot)
    machine.write({cpu: {"ticks": 1} for cpu in range(400)})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    if hard != resource.RLIM_INFINITY and hard < opened + 500:
        pytest.skip("the hard limit of open files is too low to be reached here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 200, hard))
    try:
        collector = machine.attach(bind_machine())
        assert len(collector.read()) == 400
        collector.stop()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == opened + 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_files_past_the_limit_refuse_the_request(sysroot: Sysroot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the limit cannot be raised so far: what would mend it is said."""
    machine = Machine(sysroot)
    machine.write({0: {"ticks": 1}})

    def refuse(path: str, **_how: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("omn_kernel.cpus.PolledFile", refuse)
    with pytest.raises(MachineRefused, match="the files of 1 cpus cannot be kept open: Too many open files") as refused:
        machine.attach(bind_machine())
    assert "ulimit -n" in str(refused.value.remedy)
