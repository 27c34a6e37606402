"""Where counters stand, kind of target by kind, and what they grew by since they were last read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import attrs
import numpy as np

from omn_core.api import BoundTarget, MachineRefused, TargetGone
from omn_kernel.cgroup_files import get_place
from omn_kernel.counters import Misses
from omn_kernel.cpus import CpuPresence
from omn_kernel.perf.attributes import Place
from omn_kernel.perf.cgroups import find_cgroup_folder
from omn_kernel.perf.opening import (
    EventOpener,
    close_all,
    count_threads,
    open_thread,
    open_threads,
)
from omn_kernel.perf.reading import Counted, Readings, compute_counted, read_counters
from omn_kernel.procfs.process import find_process_key, has_ended
from omn_kernel.sysfs import read_cpus


def count_places(target: BoundTarget) -> int:
    """Count the threads or cpus on which a target's events are opened, as far as they are known before."""
    if not target.processes:
        return len(read_cpus("/", "online"))
    return 1 if target.tid is not None else sum(count_threads(handle) for handle in target.processes)


@attrs.frozen(eq=False)
class Growth:
    """What the events of one thing grew by, in their order: what it is about, and its process where it is one."""

    keys: Mapping[str, Any]
    pid: int | None
    counted: Sequence[Counted]


@attrs.define(eq=False)
class Group:
    """The counters of one thing: for each event the descriptors that add up to it, and their last reading."""

    keys: Mapping[str, Any]
    pid: int | None
    descriptors: list[list[int]]
    last: Readings | None = None

    @property
    def flat(self) -> list[int]:
        """Every descriptor, event by event."""
        return [descriptor for each in self.descriptors for descriptor in each]

    def advance(self, readings: Readings) -> Growth:
        """Return what was counted since the last reading, or since the opening."""
        last = np.zeros_like(readings) if self.last is None else self.last
        growth = (readings - last).astype(np.int64)
        self.last = readings
        counted, begin = [], 0
        for each in self.descriptors:
            counted.append(compute_counted(growth[begin : begin + len(each)]))
            begin += len(each)
        return Growth(self.keys, self.pid, counted)

    def close(self) -> None:
        """Close the counters."""
        close_all(self.descriptors)
        self.descriptors = []


class Counters(ABC):
    """The counters of a target."""

    def __init__(self) -> None:
        self.groups: list[Group] = []

    @abstractmethod
    def advance(self) -> list[Growth]:
        """Return what each group grew by since the last reading. Raises TargetGone when none is left."""

    def facts(self) -> tuple[str, ...]:
        """Return nothing that a reader should know."""
        return ()

    def close(self) -> None:
        """Close every counter."""
        for group in self.groups:
            group.close()
        self.groups = []


def advance_all(groups: Sequence[Group]) -> list[Growth]:
    """Read every group in one call, and return what each grew by."""
    readings = read_counters([descriptor for group in groups for descriptor in group.flat])
    grown, begin = [], 0
    for group in groups:
        length = len(group.flat)
        grown.append(group.advance(readings[begin : begin + length]))
        begin += length
    return grown


class TaskCounters(Counters):
    """A group for each process, of all its threads and what they start; or of one thread.

    A process that has ended may have started others that run on: its row ends once nothing of it ran any more. A thread
    that has ended is read once more. Raises MachineRefused where one has ended already.
    """

    def __init__(self, target: BoundTarget, openers: Sequence[EventOpener], sysroot: str) -> None:
        super().__init__()
        self._tid = target.tid
        self._sysroot = sysroot
        with ExitStack() as stack:
            stack.callback(self.close)
            for handle in target.processes:
                slots = [(opener, -1) for opener in openers]
                descriptors = open_threads(handle, slots) if target.tid is None else open_thread(target.tid, slots)
                self.groups.append(Group({"proc": find_process_key(sysroot, handle.pid)}, handle.pid, descriptors))
            stack.pop_all()

    def advance(self) -> list[Growth]:
        """Read every process. Raises TargetGone when none is left."""
        if not self.groups:
            raise TargetGone
        # Asked before the reading: what is read of a task that has ended is final.
        ended = [has_ended(self._sysroot, group.pid or 0, self._tid) for group in self.groups]
        grown: list[Growth] = []
        for group, growth, is_ended in zip(list(self.groups), advance_all(self.groups), ended, strict=True):
            ran = any(counted.enabled_ns for counted in growth.counted)
            if is_ended and (self._tid is not None or not ran):
                self.groups.remove(group)
                group.close()
            if ran or not is_ended:
                grown.append(growth)
        if not self.groups and not grown:
            raise TargetGone
        return grown


class CpuCounters(Counters):
    """A group for each cpu that is online, or that the target names. One that comes is counted from then on."""

    def __init__(self, wanted: Sequence[int], openers: Sequence[EventOpener], misses: Misses) -> None:
        super().__init__()
        self._openers = openers
        self._presence = CpuPresence(wanted, misses)
        with ExitStack() as stack:
            stack.callback(self.close)
            self._observe()
            stack.pop_all()

    def _observe(self) -> None:
        """Open the cpus that are new, and let go of those that went: their last reading was made before."""
        online = [cpu for cpu in read_cpus("/", "online") if self._presence.is_wanted(cpu)]
        gone = self._presence.observe(online)
        for group in [group for group in self.groups if group.keys["cpu"] in gone]:
            group.close()
            self.groups.remove(group)
        there = {group.keys["cpu"] for group in self.groups}
        for cpu in online:
            if cpu not in there:
                self._open(cpu)

    def _open(self, cpu: int) -> None:
        group = Group({"cpu": cpu}, None, [])
        self.groups.append(group)
        for opener in self._openers:
            group.descriptors.append([opener.open(Place(cpu=cpu))])

    def advance(self) -> list[Growth]:
        """Read every cpu, one that went meanwhile for the last time."""
        grown = advance_all(self.groups)
        self._observe()
        return grown

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came and went."""
        return self._presence.facts()


class CgroupCounters(Counters):
    """One group for a cgroup and all below it, of an event on each cpu.

    Raises MachineRefused where perf events cannot name it.
    """

    def __init__(self, target: BoundTarget, openers: Sequence[EventOpener]) -> None:
        super().__init__()
        place = get_place(target)
        folder = find_cgroup_folder(place)
        if folder is None:
            raise MachineRefused(
                f"cgroup {place.path!r} stands in no hierarchy that perf events count by",
                "name a cgroup of cgroup2, or of the perf_event controller where that is mounted",
            )
        self._folder = folder
        group = Group({"cgroup": place.path}, None, [])
        self.groups.append(group)
        with ExitStack() as stack:
            stack.callback(self.close)
            _open_on_cpus(folder, openers, group.descriptors)
            stack.pop_all()

    def advance(self) -> list[Growth]:
        """Read the cgroup, once more after it was removed. Raises TargetGone after that."""
        if not self.groups:
            raise TargetGone
        is_last = not os.path.isdir(self._folder)
        grown = advance_all(self.groups)
        if is_last:
            self.close()
        return grown


def _open_on_cpus(folder: str, openers: Sequence[EventOpener], opened: list[list[int]]) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for opener in openers:
            opened.append([])
            for cpu in read_cpus("/", "online"):
                opened[-1].append(opener.open(Place(number, cpu, is_cgroup=True)))
    finally:
        os.close(number)
