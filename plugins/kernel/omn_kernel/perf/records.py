"""Records of perf events, taken apart: samples in columns, natively, and the few others one by one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.native._perf import ffi, lib
from omn_kernel.perf.attributes import Sampling
from omn_kernel.perf.samples import Samples, decode_samples

_HEADER = struct.Struct("=IHH")
_TRAILER = struct.Struct("=IIQII")
_COMM = struct.Struct("=ii")
_TASK = struct.Struct("=iiiiQ")
_MAPPING = struct.Struct("=iiQQQIIQQII")
_BUILD_ID = struct.Struct("=B3x20s")
_FILE_AT = struct.calcsize("=iiQQQ")
"""Where a mapping's record names its file: by device, inode and generation, or in the same bytes by its build id."""

_LOST = struct.Struct("=QQ")
_NUMBER = struct.Struct("=Q")
_STREAM_BYTES = _NUMBER.size


@attrs.frozen(repr=False)
class Lost:
    """Records that found no room in a ring: how many."""

    count: int


@attrs.frozen(repr=False)
class Throttled:
    """An event that the kernel stopped for raising too many samples, until its next tick."""

    time_ns: int


@attrs.frozen(repr=False)
class Named:
    """A task that took a name, by an execve where `is_exec`."""

    pid: int
    tid: int
    comm: bytes
    is_exec: bool
    time_ns: int


@attrs.frozen(repr=False)
class Started:
    """A task that another made; a thread where both are of one process."""

    pid: int
    tid: int
    parent_pid: int
    parent_tid: int
    time_ns: int


@attrs.frozen(repr=False)
class Ended:
    """A task that ended."""

    pid: int
    tid: int
    time_ns: int


@attrs.frozen(repr=False)
class Mapped:
    """Code that a process mapped: where, and which part of which file.

    The file is named by its build id, or by its device and inode where it has none or the kernel did not read it.
    """

    pid: int
    start: int
    length: int
    offset: int
    device: tuple[int, int] | None
    inode: int | None
    path: bytes
    time_ns: int
    build_id: str | None = None


Record: TypeAlias = Lost | Throttled | Named | Started | Ended | Mapped


@attrs.frozen(eq=False, repr=False)
class Records:
    """What some bytes hold: the samples, and every other record that is known. `cut_bytes` follow and are no record."""

    samples: Samples
    others: tuple[Record, ...]
    cut_bytes: int = 0


def parse_records(data: npt.NDArray[np.uint8], sampling: Sampling) -> Records:
    """Take records apart of an event that was sampled so."""
    asked = (
        (sampling.has_chains, lib.OMN_CHAINS),
        (sampling.states_periods, lib.OMN_PERIODS),
        (sampling.has_accesses, lib.OMN_ACCESSES),
        (sampling.has_streams, lib.OMN_STREAMS),
        (sampling.copies_registers, lib.OMN_USER_REGISTERS),
        (sampling.stack_bytes > 0, lib.OMN_USER_STACKS),
    )
    parts = sum(bit for is_asked, bit in asked if is_asked)
    data = np.ascontiguousarray(data)
    given = ffi.from_buffer("uint8_t[]", data)
    counts = ffi.new("struct omn_record_counts *")
    lib.omn_records_count(given, len(data), parts, counts)
    samples, places = decode_samples(given, counts, parts)
    if not sampling.states_periods:
        samples.period.fill(sampling.period or 0)
    raw = memoryview(data.data)
    # The cpu stands last in a trailer: without it the number of the stream takes its place, and the time keeps its own.
    beyond = _STREAM_BYTES if sampling.has_streams else 0
    others = (_parse_other(raw, place, beyond) for place in places.tolist())
    return Records(samples, tuple(one for one in others if one is not None), len(data) - int(counts.bytes))


def _parse_other(raw: memoryview, place: int, beyond: int) -> Record | None:
    """Parse one record, None for a kind that nobody asked for or that is shorter than its kind is."""
    kind, misc, size = _HEADER.unpack_from(raw, place)
    body = raw[place + _HEADER.size : place + size - beyond]
    parse = _PARSERS.get(kind)
    try:
        return None if parse is None else parse(body, misc)
    except struct.error:
        return None


def _read_time(body: memoryview) -> int:
    """Return the time of a record's trailer (sample_id_all)."""
    time_ns: int = _TRAILER.unpack_from(body, len(body) - _TRAILER.size)[2]
    return time_ns


def _read_text(body: memoryview, begin: int) -> bytes:
    """Return the text between a record's fields and its trailer, without the zeros that fill it up."""
    return bytes(body[begin : len(body) - _TRAILER.size]).partition(b"\0")[0]


def _parse_lost(body: memoryview, _misc: int) -> Lost:
    return Lost(_LOST.unpack_from(body)[1])


def _parse_lost_samples(body: memoryview, _misc: int) -> Lost:
    return Lost(_NUMBER.unpack_from(body)[0])


def _parse_throttle(body: memoryview, _misc: int) -> Throttled:
    return Throttled(_NUMBER.unpack_from(body)[0])


def _parse_comm(body: memoryview, misc: int) -> Named:
    pid, tid = _COMM.unpack_from(body)
    is_exec = bool(misc & lib.PERF_RECORD_MISC_COMM_EXEC)
    return Named(pid, tid, _read_text(body, _COMM.size), is_exec, _read_time(body))


def _parse_fork(body: memoryview, _misc: int) -> Started:
    pid, parent_pid, tid, parent_tid, time_ns = _TASK.unpack_from(body)
    return Started(pid, tid, parent_pid, parent_tid, time_ns)


def _parse_exit(body: memoryview, _misc: int) -> Ended:
    pid, _, tid, _, time_ns = _TASK.unpack_from(body)
    return Ended(pid, tid, time_ns)


def _parse_mapping(body: memoryview, misc: int) -> Mapped:
    pid, _, start, length, offset, major, minor, inode, _, _, _ = _MAPPING.unpack_from(body)
    path, time_ns = _read_text(body, _MAPPING.size), _read_time(body)
    if not misc & lib.PERF_RECORD_MISC_MMAP_BUILD_ID:
        return Mapped(pid, start, length, offset, (major, minor), inode, path, time_ns)
    size, build_id = _BUILD_ID.unpack_from(body, _FILE_AT)
    return Mapped(pid, start, length, offset, None, None, path, time_ns, build_id[:size].hex())


_PARSERS: dict[int, Callable[[memoryview, int], Record]] = {
    lib.PERF_RECORD_LOST: _parse_lost,
    lib.PERF_RECORD_LOST_SAMPLES: _parse_lost_samples,
    lib.PERF_RECORD_THROTTLE: _parse_throttle,
    lib.PERF_RECORD_COMM: _parse_comm,
    lib.PERF_RECORD_FORK: _parse_fork,
    lib.PERF_RECORD_EXIT: _parse_exit,
    lib.PERF_RECORD_MMAP2: _parse_mapping,
}
