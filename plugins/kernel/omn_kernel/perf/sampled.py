"""Events that are sampled for a target: opened on each of its threads and each cpu, their records in a ring a cpu."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence
from contextlib import ExitStack

import attrs

from omn_core.api import BoundTarget, MachineRefused
from omn_kernel.cgroup_files import get_place
from omn_kernel.perf.attributes import READ_WORDS, Place, Sampling
from omn_kernel.perf.cgroups import find_cgroup_folder
from omn_kernel.perf.opening import EventOpener, close_all, count_threads, open_thread, open_threads
from omn_kernel.perf.reading import read_counters
from omn_kernel.perf.rings import Bytes, Rings, choose_ring_bytes
from omn_kernel.polled import raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.sysfs import read_cpus

_ENABLE, _DISABLE, _SET_OUTPUT, _ID = 0x2400, 0x2401, 0x2405, 0x80082407
"""PERF_EVENT_IOC_ENABLE, _DISABLE, _SET_OUTPUT and _ID of <linux/perf_event.h>."""


@attrs.frozen(repr=False)
class Totals:
    """What events came to: how much they counted, for how long they ran (while a task was on its cpu), both added up.

    `lost` is how many of their records found no room, None where the kernel does not count those.
    """

    counted: int = 0
    running_ns: int = 0
    lost: int | None = None


class SampledEvents:
    """An event on every place of a target, disabled until `enable`, or until an execve where it was opened so.

    Raises MachineRefused where it cannot be opened, or no memory can be locked for its rings.
    """

    def __init__(
        self, target: BoundTarget, opener: EventOpener, sampling: Sampling, *, reads_lost: bool = False
    ) -> None:
        self._reads_lost = reads_lost
        self._held = ExitStack()
        online = read_cpus("/", "online")
        cpus = [cpu for cpu in online if not target.cpus or cpu in target.cpus]
        threads = 1 if target.tid is not None else sum(count_threads(handle) for handle in target.processes)
        self._held.callback(restore_descriptor_limit, raise_descriptor_limit(len(cpus) * max(threads, 1)))
        with ExitStack() as stack:
            stack.callback(self.close)
            self._opened = _open(target, opener, cpus)
            self._held.callback(close_all, self._opened)
            if not all(self._opened):
                raise MachineRefused("the target ended before it could be sampled")
            size = choose_ring_bytes(sampling, len(cpus))
            self._rings = Rings([descriptors[0] for descriptors in self._opened], size)
            self._held.callback(self._rings.close)
            for first, *others in self._opened:
                for other in others:
                    fcntl.ioctl(other, _SET_OUTPUT, first)
            stack.pop_all()

    def enable(self) -> None:
        """Begin to sample."""
        self._tell(_ENABLE)

    def disable(self) -> None:
        """End it, for what the tasks started too: what the rings hold is then all that they will."""
        self._tell(_DISABLE)

    def _tell(self, command: int) -> None:
        for descriptors in self._opened:
            for descriptor in descriptors:
                fcntl.ioctl(descriptor, command, 0)

    def drain(self) -> Bytes:
        """Take what the rings hold."""
        return self._rings.drain()

    def read_totals(self) -> Totals:
        """Read what the events came to, all together."""
        words = READ_WORDS + self._reads_lost
        flat = [descriptor for descriptors in self._opened for descriptor in descriptors]
        sums = read_counters(flat, words).sum(axis=0).tolist()
        return Totals(sums[0], sums[2], sums[READ_WORDS] if self._reads_lost else None)

    def read_ids(self) -> list[int]:
        """Read the numbers of the events, which samples carry as that of their stream; not of what was inherited."""
        return [
            struct.unpack("=Q", fcntl.ioctl(descriptor, _ID, bytes(8)))[0]
            for descriptors in self._opened
            for descriptor in descriptors
        ]

    def close(self) -> None:
        """Let go of the rings and the events."""
        self._held.close()


def _open(target: BoundTarget, opener: EventOpener, cpus: Sequence[int]) -> list[list[int]]:
    """Open the event, and return the descriptors of each cpu."""
    if target.tid is not None:
        return open_thread(target.tid, [(opener, cpu) for cpu in cpus])
    opened: list[list[int]] = [[] for _ in cpus]
    with ExitStack() as stack:
        stack.callback(close_all, opened)
        for handle in target.processes:
            for place, descriptors in enumerate(open_threads(handle, [(opener, cpu) for cpu in cpus])):
                opened[place] += descriptors
        if target.place is not None:
            _open_cgroup(target, opener, cpus, opened)
        elif not target.processes:
            for place, cpu in enumerate(cpus):
                opened[place].append(opener.open(Place(cpu=cpu)))
        stack.pop_all()
    return opened


def _open_cgroup(target: BoundTarget, opener: EventOpener, cpus: Sequence[int], opened: list[list[int]]) -> None:
    place = get_place(target)
    folder = find_cgroup_folder(place)
    if folder is None:
        raise MachineRefused(f"cgroup {place.path!r} stands in no hierarchy that perf events count by")
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for index, cpu in enumerate(cpus):
            opened[index].append(opener.open(Place(number, cpu, is_cgroup=True)))
    finally:
        os.close(number)
