"""Samples of perf events in columns, and how the native code fills them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.native._perf import ffi, lib
from omn_kernel.unwind.copied import CopiedStacks

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


def decode_samples(given: Any, counts: Any, parts: int) -> tuple[Samples, npt.NDArray[np.uint64]]:
    """Decode the samples among records, and find the others: where in the bytes each begins.

    `given` are the bytes and `counts` what they hold, by the native code's own count; `parts` are the bits of what each
    sample was asked to hold.
    """
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
