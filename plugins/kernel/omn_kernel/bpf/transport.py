"""How programs hand records over while they run: one ring buffer for all cpus, or a ring of perf events for each.

A record is a structure whose first field, `ns`, is when it was made (CLOCK_MONOTONIC nanoseconds). A tick copies what
waits, in one native call; records are laid side by side and put in the order of their stamps after the close. What
finds no room is counted by the program that had it (`write_record`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import MachineRefused
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.refusals import refuse_output
from omn_kernel.native._bpf import ffi, lib
from omn_kernel.perf.attributes import open_output
from omn_kernel.perf.rings import Rings
from omn_kernel.sysfs import read_cpus

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

STAMP = "ns"
_NOTHING = np.dtype("V0")
_CPU_BYTES = 1 << 22
_ALL_BYTES = 1 << 26


def compute_room(cpus: int) -> int:
    """Return the bytes for the records of each cpu, a power of two: 4 MiB, less where many cpus would take over 64.

    4 MiB hold what a cpu makes in a tenth of a second at half a million records of 64 bytes a second.
    """
    share = min(_CPU_BYTES, _ALL_BYTES // cpus)
    return max(1 << (share.bit_length() - 1), 1 << 16)


class Transport(ABC):
    """The way that records of one type take from the programs that write them to here.

    `map` is what programs write to, and `lost` the counter of what found no room: both are loaded with them.
    """

    map: Map

    def __init__(self, record: np.dtype[Any]) -> None:
        if record.names is None or record.names[0] != STAMP:
            raise ValueError(f"a record begins with its stamp, {STAMP!r}")
        self.record = record
        self._held = ExitStack()
        with ExitStack() as stack:
            stack.callback(self.close)
            self.lost = self._held.enter_context(Map(MapType.ARRAY, "lost", np.uint32, np.uint64, 1))
            self._open()
            stack.pop_all()

    @abstractmethod
    def _open(self) -> None:
        """Make the map and map its memory."""

    @abstractmethod
    def drain(self) -> Bytes:
        """Take what waits, as the kernel laid it out: whole records, up to one that is being written."""

    @abstractmethod
    def _gather(self, data: Any, length: int, rows: Any) -> int:
        """Lay the records in some drained bytes side by side, or only count them."""

    def decode(self, parts: Sequence[Bytes]) -> Array:
        """Return the records in what was drained, in the order of their stamps."""
        given = [(ffi.from_buffer("uint8_t[]", part), len(part)) for part in parts]
        counts = [self._gather(*one, ffi.NULL) for one in given]
        rows = np.empty(sum(counts), self.record)
        begin = 0
        for one, count in zip(given, counts, strict=True):
            if count:
                self._gather(*one, ffi.from_buffer("uint8_t[]", rows[begin : begin + count]))
            begin += count
        stamps = rows[STAMP]
        if np.all(stamps[1:] >= stamps[:-1]):
            return rows
        return rows[np.argsort(stamps, kind="stable")]

    def read_lost(self) -> int:
        """Read how many records found no room so far."""
        return int(self.lost.find(0))

    def close(self) -> None:
        """Let go of the memory and the maps. What waits is lost."""
        self._held.close()


class RingBuffer(Transport):
    """One ring buffer that every cpu writes to (Linux 5.8). Raises MachineRefused where the kernel makes none."""

    def _open(self) -> None:
        cpus = len(read_cpus("/", "possible"))
        size = 1 << (cpus * compute_room(cpus) - 1).bit_length()
        self.map = self._held.enter_context(Map(MapType.RINGBUF, "records", _NOTHING, _NOTHING, size))
        self._ring = ffi.new("struct omn_ringbuf *")
        failed = lib.omn_ringbuf_map(self.map.descriptor, size, self._ring)
        if failed < 0:
            raise refuse_output("ring buffer", OSError(-failed, os.strerror(-failed)))
        self._held.callback(lib.omn_ringbuf_unmap, self._ring)

    def drain(self) -> Bytes:
        """Take what waits in the ring."""
        out = np.empty(lib.omn_ringbuf_waiting(self._ring), np.uint8)
        return out[: lib.omn_ringbuf_drain(self._ring, ffi.from_buffer("uint8_t[]", out), len(out))]

    def _gather(self, data: Any, length: int, rows: Any) -> int:
        return lib.omn_ringbuf_gather(data, length, self.record.itemsize, rows)


class PerfArrays(Transport):
    """A ring of perf events for each cpu that is online. Raises MachineRefused where they cannot be opened.

    A record that a cpu makes which came online since finds no ring, and is counted as one that found no room. The
    kernel's own count of the lost (PERF_RECORD_LOST) is of the same records, and is passed over.
    """

    def _open(self) -> None:
        cpus = read_cpus("/", "online")
        entries = max(read_cpus("/", "possible")) + 1
        self.map = self._held.enter_context(Map(MapType.PERF_EVENT_ARRAY, "records", np.uint32, np.uint32, entries))
        descriptors = []
        for cpu in cpus:
            try:
                descriptor = open_output(cpu)
            except OSError as error:
                raise refuse_output("ring of perf events", error) from None
            self._held.callback(os.close, descriptor)
            self.map.update(cpu, descriptor)
            descriptors.append(descriptor)
        self._rings = Rings(descriptors, compute_room(len(cpus)))
        self._held.callback(self._rings.close)

    def drain(self) -> Bytes:
        """Take what waits in every ring, ring by ring."""
        return self._rings.drain()

    def _gather(self, data: Any, length: int, rows: Any) -> int:
        return lib.omn_raw_samples_gather(data, length, self.record.itemsize, rows)


def open_transport(record: np.dtype[Any]) -> Transport:
    """Open the ring buffer where the kernel makes one, else perf events. Raises MachineRefused where it has neither."""
    try:
        return RingBuffer(record)
    except MachineRefused as refused:
        try:
            return PerfArrays(record)
        except MachineRefused as also:
            raise MachineRefused(f"{refused.reason}; and {also.reason}", also.remedy or refused.remedy) from None
