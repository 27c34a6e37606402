"""Records of perf events, taken apart: samples in columns, natively, and the few others one by one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.native._perf import ffi, lib
from omn_kernel.perf.attributes import Sampling
from omn_kernel.unwind.copied import CopiedStacks

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
_SPELLED = {
    np.dtype(np.uint64): "uint64_t[]",
    np.dtype(np.int32): "int32_t[]",
    np.dtype(np.uint32): "uint32_t[]",
    np.dtype(np.uint8): "uint8_t[]",
}
"""How C spells a column."""


@attrs.frozen(eq=False, repr=False)
class Samples:
    """Samples in columns, in the order of their rings: `time` is CLOCK_MONOTONIC nanoseconds.

    `period` is how much of the event each stands for; `accessed` the address that it accessed and `stream` the number
    of the event that wrote it, both empty where they were not asked for. The chain of sample `i` are the addresses from
    `chain_starts[i]` on, leaf first, as many as `chain_lengths[i]`; its first `kernel_frames[i]` are the kernel's. The
    next sample's chain follows, and nothing is between.
    `copied` is what was taken of the program for its callers to be found later, None where nothing was asked for: a
    sample that has none, as of the kernel's own tasks and of 32-bit programs, has zeros there.
    """

    ip: npt.NDArray[np.uint64]
    pid: npt.NDArray[np.int32]
    tid: npt.NDArray[np.int32]
    time: npt.NDArray[np.uint64]
    cpu: npt.NDArray[np.uint32]
    period: npt.NDArray[np.uint64]
    accessed: npt.NDArray[np.uint64]
    stream: npt.NDArray[np.uint64]
    chain_starts: npt.NDArray[np.uint64]
    chain_lengths: npt.NDArray[np.uint64]
    kernel_frames: npt.NDArray[np.uint32]
    addresses: npt.NDArray[np.uint64]
    copied: CopiedStacks | None = None

    def __len__(self) -> int:
        return len(self.ip)

    @classmethod
    def concatenate(cls, parts: Sequence[Samples]) -> Samples:
        """Lay samples end to end, their chains too. There is at least one part."""
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        ends = np.cumsum(columns["chain_lengths"])
        copied = [part.copied for part in parts if part.copied is not None]
        return cls(
            **{**columns, "chain_starts": ends - columns["chain_lengths"]},
            copied=CopiedStacks.concatenate(copied) if copied else None,
        )

    def drop_chains(self) -> Samples:
        """Return them without their chains and what was copied."""
        none = np.zeros(len(self), np.uint64)
        return attrs.evolve(
            self,
            chain_starts=none,
            chain_lengths=none,
            kernel_frames=none.astype(np.uint32),
            addresses=np.zeros(0, np.uint64),
            copied=None,
        )

    @property
    def nbytes(self) -> int:
        """Bytes held by the columns."""
        own: int = sum(getattr(self, name).nbytes for name in _COLUMNS)
        return own + (0 if self.copied is None else self.copied.nbytes)


_COLUMNS = tuple(field.name for field in attrs.fields(Samples) if field.name != "copied")


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
    samples, places = _decode(given, counts, parts)
    if not sampling.states_periods:
        samples.period.fill(sampling.period or 0)
    raw = memoryview(data.data)
    # The cpu stands last in a trailer: without it the number of the stream takes its place, and the time keeps its own.
    beyond = _STREAM_BYTES if sampling.has_streams else 0
    others = (_parse_other(raw, place, beyond) for place in places.tolist())
    return Records(samples, tuple(one for one in others if one is not None), len(data) - int(counts.bytes))


def _decode(given: Any, counts: Any, parts: int) -> tuple[Samples, npt.NDArray[np.uint64]]:
    number, addresses, others = (int(getattr(counts, name)) for name in ("samples", "addresses", "others"))
    kinds = {
        "ip": np.uint64,
        "pid": np.int32,
        "tid": np.int32,
        "time": np.uint64,
        "cpu": np.uint32,
        "period": np.uint64,
        "chain_ends": np.uint64,
        "kernel_frames": np.uint32,
    }
    columns: dict[str, npt.NDArray[np.generic]] = {name: np.zeros(number, kind) for name, kind in kinds.items()}
    columns["accessed"] = np.zeros(number if parts & lib.OMN_ACCESSES else 0, np.uint64)
    columns["stream"] = np.zeros(number if parts & lib.OMN_STREAMS else 0, np.uint64)
    columns["addresses"] = np.zeros(addresses, np.uint64)
    columns |= _make_copies(number, int(counts.stack_bytes), parts)
    places = np.zeros(others, np.uint64)
    # The buffers are held by this dict while the native code writes into them.
    held = {name: ffi.from_buffer(_SPELLED[column.dtype], column) for name, column in columns.items()}
    filled = ffi.new("struct omn_samples *", held)
    whole = int(counts.bytes)
    lib.omn_records_decode(given, whole, parts, filled, ffi.from_buffer("uint64_t[]", places))
    ends = columns.pop("chain_ends").astype(np.uint64)
    # A chain has marks between its parts, which were counted and are not kept.
    columns["addresses"] = columns["addresses"][: int(ends[-1]) if number else 0]
    starts = np.concatenate([np.zeros(min(number, 1), np.uint64), ends[:-1]])
    copied = _take_copies(columns)
    samples = Samples(**columns, chain_starts=starts, chain_lengths=ends - starts, copied=copied)  # type: ignore[arg-type]
    return samples, places


def _make_copies(number: int, stack_bytes: int, parts: int) -> dict[str, npt.NDArray[np.generic]]:
    """Make the columns of what was copied of the program, those that were asked for."""
    columns: dict[str, npt.NDArray[np.generic]] = {}
    if parts & lib.OMN_USER_REGISTERS:
        columns["registers"] = np.zeros((number, lib.OMN_REGISTER_COUNT), np.uint64)
    if parts & lib.OMN_USER_STACKS:
        columns["stack_ends"] = np.zeros(number, np.uint64)
        columns["stacks"] = np.zeros(stack_bytes, np.uint8)
    return columns


def _take_copies(columns: dict[str, Any]) -> CopiedStacks | None:
    """Take what was copied of the program out of the columns; registers alone stand beside stacks of no bytes."""
    registers = columns.pop("registers", None)
    ends = columns.pop("stack_ends", np.zeros(0 if registers is None else len(registers), np.uint64))
    stacks = columns.pop("stacks", np.zeros(0, np.uint8))
    if registers is None:
        return None
    return CopiedStacks(registers, stacks, np.concatenate([np.zeros(min(len(ends), 1), np.uint64), ends[:-1]]), ends)


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
