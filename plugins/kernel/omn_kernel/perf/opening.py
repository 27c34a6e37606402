"""Counters opened for a target: each thread of a process, each cpu, a cgroup on each cpu; and what refuses them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeAlias

from omn_core.api import MachineRefused, ProcessHandle
from omn_kernel.perf.attributes import EventAttributes, Place, open_event
from omn_kernel.perf.events import PerfEvent, Raised
from omn_kernel.perf.paranoia import describe_paranoia
from omn_kernel.privileges import explain
from omn_kernel.procfs.process import ProcessGone, list_threads

_TRIES = 8
_REFUSED = frozenset({errno.EACCES, errno.EPERM})
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE})


class TaskEnded(Exception):
    """The task that an event was to be opened on is not there any more."""


class EventOpener:
    """Opens one event on places, with the kernel's part or, where that is refused and something is left, without it.

    `is_user_only` says that what only the kernel's code does is not counted.
    """

    def __init__(self, event: PerfEvent, make: Callable[[PerfEvent, bool], EventAttributes]) -> None:
        self.event = event
        self.is_user_only = False
        self._make = make

    def open(self, place: Place) -> int:
        """Open the event. Raises TaskEnded where the task is gone, MachineRefused where it cannot be opened."""
        try:
            return self._try(place)
        except OSError as error:
            if error.errno == errno.ESRCH:
                raise TaskEnded from None
            raise self._refuse(error) from None

    def _try(self, place: Place) -> int:
        try:
            return open_event(self._make(self.event, self.is_user_only), place)
        except OSError as error:
            can_narrow = place.is_task and self.event.raised is not Raised.KERNEL and not self.is_user_only
            if error.errno not in _REFUSED or not can_narrow:
                raise
        opened = open_event(self._make(self.event, True), place)
        self.is_user_only = True
        return opened

    def _refuse(self, error: OSError) -> MachineRefused:
        spelling = self.event.spelling
        if error.errno in _REFUSED:
            reason, remedy = explain("perfmon")
            return MachineRefused(f"the {spelling} is closed to this user ({describe_paranoia()}): {reason}", remedy)
        if error.errno in _NO_ROOM:
            return MachineRefused(
                f"no more events can be opened for the {spelling}: {error.strerror}",
                "raise the limit of open files (ulimit -n)",
            )
        return MachineRefused(f"the {spelling} cannot be opened here: {error.strerror}")


Slot: TypeAlias = tuple[EventOpener, int]
"""An event, and the cpu on which it follows a task; -1 for wherever that runs."""


def open_threads(handle: ProcessHandle, slots: Sequence[Slot]) -> list[list[int]]:
    """Open every slot on every thread of a process, and return the descriptors of each slot.

    An event counts one thread and those that it starts from then on. A thread that comes while others are being opened
    was counted already or was not, by which of them started it, and nobody can tell: all are opened anew then, until
    none came meanwhile. Raises MachineRefused where threads come faster than that, or the process has ended.
    """
    for _ in range(_TRIES):
        before = _list_threads(handle.pid)
        opened: list[list[int]] = [[] for _ in slots]
        with ExitStack() as stack:
            stack.callback(close_all, opened)
            for tid in before:
                _open_thread(tid, slots, opened)
            if set(_list_threads(handle.pid)) <= set(before):
                stack.pop_all()
                return opened
    raise MachineRefused(
        f"process {handle.pid} starts threads faster than its counters can be opened", "launch it with omn"
    )


def open_thread(tid: int, slots: Sequence[Slot]) -> list[list[int]]:
    """Open every slot on one thread. Raises MachineRefused where it has ended."""
    opened: list[list[int]] = []
    with ExitStack() as stack:
        stack.callback(close_all, opened)
        for opener, cpu in slots:
            try:
                opened.append([opener.open(Place(tid, cpu))])
            except TaskEnded:
                raise MachineRefused(f"thread {tid} ended before it could be read") from None
        stack.pop_all()
    return opened


def count_threads(handle: ProcessHandle) -> int:
    """Count the threads of a process now. Raises MachineRefused where it has ended."""
    return len(_list_threads(handle.pid))


def _list_threads(pid: int) -> list[int]:
    try:
        return list_threads("/", pid)
    except ProcessGone:
        raise MachineRefused(f"process {pid} ended before it could be read") from None


def _open_thread(tid: int, slots: Sequence[Slot], opened: list[list[int]]) -> None:
    for (opener, cpu), descriptors in zip(slots, opened, strict=True):
        try:
            descriptors.append(opener.open(Place(tid, cpu)))
        except TaskEnded:
            return


def close_all(opened: Sequence[Sequence[int]]) -> None:
    """Close the descriptors of several events."""
    for descriptors in opened:
        for descriptor in descriptors:
            os.close(descriptor)
