"""How programs hand records over while they run: one ring buffer for all cpus, or a ring of perf events for each.

A record is a structure whose first field, `ns`, is when it was made (CLOCK_MONOTONIC nanoseconds). A tick copies what
waits, in one native call; records are laid side by side and put in the order of their stamps after the close. What
finds no room is counted by the program that made it (`Transport.write`).
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
from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.refusals import refuse_output
from omn_kernel.bpf.registers import R0, R1, R2, R3, R4, R5, Register
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

    `map` is what programs write to, and `lost` counts what found no room there.
    """

    map: Map

    def __init__(self, record: np.dtype[Any]) -> None:
        if record.names is None or record.names[0] != STAMP:
            raise ValueError(f"a record begins with its stamp, {STAMP!r}")
        self.record = record
        self._held = ExitStack()
        with ExitStack() as stack:
            stack.callback(self.close)
            self.lost = self._held.enter_context(LostCounter())
            self._open()
            stack.pop_all()

    @abstractmethod
    def _open(self) -> None:
        """Make the map and map its memory."""

    @abstractmethod
    def drain(self) -> Bytes:
        """Take what waits, as the kernel laid it out: whole records, up to one that is being written."""

    def write(self, program: Assembly, record: Record, context: Register, *, lost: LostCounter | None = None) -> None:
        """Emit what writes a record that a program has made, and counts it where there is no room for it.

        `context` is a register that holds what R1 held when the program began. R0 to R5 hold nothing after it. What is
        no event by itself has its losses counted apart, in `lost`.
        """
        self._emit_output(program, record, context)
        with program.when(R0, "!=", 0):
            (lost or self.lost).emit_count(program)

    @abstractmethod
    def _emit_output(self, program: Assembly, record: Record, context: Register) -> None:
        """Emit the call that hands a record over; R0 is zero, or a negated errno."""

    @abstractmethod
    def _gather(self, data: Any, length: int, rows: Any) -> int:
        """Lay the records in some drained bytes side by side, or only count them."""

    def count(self, part: Bytes) -> int:
        """Count the records in what was drained."""
        return self._gather(ffi.from_buffer("uint8_t[]", part), len(part), ffi.NULL)

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

    def _emit_output(self, program: Assembly, record: Record, context: Register) -> None:
        program.load_map(R1, self.map)
        program.point_at(R2, record)
        program.move(R3, record.layout.itemsize)
        # Nobody waits for records, so that nobody is woken for them: a tick comes by itself.
        program.move(R4, lib.BPF_RB_NO_WAKEUP)
        program.call("ringbuf_output")

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

    def _emit_output(self, program: Assembly, record: Record, context: Register) -> None:
        program.move(R1, context)
        program.load_map(R2, self.map)
        program.move(R3, lib.BPF_F_CURRENT_CPU)
        program.point_at(R4, record)
        program.move(R5, record.layout.itemsize)
        program.call("perf_event_output")

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
