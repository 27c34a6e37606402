"""The rings that the kernel writes records into: one for each cpu, emptied together in one native call.

An event that is inherited can only be mapped on one cpu, since a ring has one writer at a time: so each cpu has a ring,
and every event on it writes there.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import MachineRefused
from omn_kernel.native._perf import ffi, lib
from omn_kernel.perf.attributes import DEFAULT_HZ, Sampling
from omn_kernel.polled import read_file
from omn_kernel.privileges import explain, read_privileges

RING_BYTES = 1 << 20
"""How large a ring is where nothing stands against it: at 997 Hz on one cpu with deep chains it fills in a second."""

_MOST_BYTES = 256 << 20
"""What the rings of one request may come to together: they are locked in memory."""

_HELD_SECONDS = 0.5
"""For how long a ring has room: several times as long as it is left alone, on a machine that is busy."""

_TRACED_HZ = 12_000
"""How many records of the deepest a trace may bring a second: a program that forks has ten times as many page faults,
with chains of a tenth."""

_RECORD_BYTES = 1280
"""A sample with as deep a chain as the kernel walks."""

_FLOOR_BYTES = 2 * mmap.PAGESIZE
_NO_ROOM = frozenset({errno.EPERM, errno.ENOMEM})

Bytes = npt.NDArray[np.uint8]


def choose_ring_bytes(sampling: Sampling, count: int) -> int:
    """Choose how large each of so many rings should be: a power of two that holds what comes between two readings.

    How often samples come is not known where they are so many occurrences apart: it is taken for what a clock's are,
    and where each occurrence is one for far more.
    """
    rate = sampling.hz or (_TRACED_HZ if sampling.period == 1 else DEFAULT_HZ)
    wanted = rate * (_RECORD_BYTES + sampling.stack_bytes) * _HELD_SECONDS
    most = 1 << (_MOST_BYTES // max(count, 1)).bit_length() - 1
    return max(RING_BYTES, min(1 << (int(wanted) - 1).bit_length(), most))


class Rings:
    """The rings of some events, one each. Raises MachineRefused where not even small ones may be locked in memory.

    One size for all: a ring that is refused halves every one, so that no cpu has less room than another. `size` is what
    they came to.
    """

    def __init__(self, descriptors: Sequence[int], size: int = RING_BYTES) -> None:
        self._rings: Any = ffi.new("struct omn_ring[]", len(descriptors))
        self._count = len(descriptors)
        self.size = size
        while not self._map(descriptors):
            self.size //= 2
            if self.size < _FLOOR_BYTES:
                raise refuse_rings(len(descriptors))

    def _map(self, descriptors: Sequence[int]) -> bool:
        """Map every ring, or none: False where the kernel locks no more memory for this user."""
        for index, descriptor in enumerate(descriptors):
            failed = lib.omn_ring_map(descriptor, self.size, ffi.addressof(self._rings, index))
            if failed < 0:
                self._unmap()
                if -failed not in _NO_ROOM:
                    raise OSError(-failed, os.strerror(-failed))
                return False
        return True

    def drain(self, room: int | None = None) -> Bytes:
        """Take what waits in every ring, ring by ring: whole records, up to `room` bytes where one is given."""
        waiting = lib.omn_rings_waiting(self._rings, self._count)
        out = np.empty(waiting if room is None else min(waiting, room), np.uint8)
        lengths = ffi.new("uint64_t[]", self._count)
        used = lib.omn_rings_drain(self._rings, self._count, ffi.from_buffer("uint8_t[]", out), len(out), lengths)
        return out[:used]

    def close(self) -> None:
        """Let go of the rings. What waited in them is lost."""
        self._unmap()

    def _unmap(self) -> None:
        for index in range(self._count):
            lib.omn_ring_unmap(ffi.addressof(self._rings, index))


def refuse_rings(count: int) -> MachineRefused:
    """Make the refusal of rings, naming what bounds the memory that a user may lock for them."""
    try:
        setting = read_file("/", "/proc/sys/kernel/perf_event_mlock_kb").decode().strip()
        allowed = f"kernel.perf_event_mlock_kb is {setting}"
    except OSError:
        allowed = "kernel.perf_event_mlock_kb cannot be read"
    remedy = "raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK (ulimit -l)"
    if not read_privileges("/").has("ipc_lock"):
        reason, grant = explain("ipc_lock")
        allowed, remedy = f"{allowed}, RLIMIT_MEMLOCK is used up, and {reason}", f"{remedy}, or {grant}"
    return MachineRefused(f"no memory can be locked for {count} rings of {_FLOOR_BYTES} bytes: {allowed}", remedy)
