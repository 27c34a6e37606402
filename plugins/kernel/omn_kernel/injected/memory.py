"""Memory that a library inside programs writes records to, for as long as any of them runs: see native/injected.h."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from omn_core.api import MachineRefused
from omn_kernel.native._injected import ffi, lib

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
NO_STACK = lib.OMN_NO_STACK
MOST_FRAMES = lib.OMN_MOST_FRAMES
BYPASSED, EXITING = lib.OMN_PROCESS_BYPASSED, lib.OMN_PROCESS_EXITING
"""What became of a process, beside the library being in it: its calls go past that; the library's way out began."""


def lay_out(name: str, fields: Mapping[str, str]) -> np.dtype[Any]:
    """Return the layout of a native structure, some of its fields: their places are the compiler's."""
    return np.dtype(
        {
            "names": list(fields),
            "formats": list(fields.values()),
            "offsets": [ffi.offsetof(name, field) for field in fields],
            "itemsize": ffi.sizeof(name),
        }
    )


PROCESS = lay_out(
    "struct omn_injected_process",
    {"state": "u4", "pid": "u4", "parent": "u4", "pid_namespace": "u4", "began_ns": "u8"},
)
_STACK = lay_out("struct omn_injected_stack", {"hash": "u8", "at": "u4", "length": "u4"})
PART = lay_out(
    "struct omn_injected_part", {"process": "u4", "thread": "u4", "bytes": "u4", "name": "S16", "base_ns": "u8"}
)
_MEMORY = "struct omn_injected_memory"
_BYTES = ffi.sizeof(_MEMORY)
_READY_BYTES = 8 << 20


@attrs.frozen(eq=False)
class Part:
    """What was copied at one time: records end to end, and whose they are, so many bytes each."""

    content: Bytes
    owners: Array

    def cut(self, most_bytes: int) -> Part:
        """Return the first of it, so many bytes."""
        owners, ends = self.owners.copy(), np.cumsum(self.owners["bytes"].astype(np.int64))
        over = np.clip(ends - most_bytes, 0, owners["bytes"].astype(np.int64))
        owners["bytes"] -= over.astype(np.uint32)
        return Part(self.content[:most_bytes], owners)


@attrs.frozen(eq=False)
class Stacks:
    """The stacks that were kept: of the one at a place `frames[at:at + length]`, the innermost first, as returns."""

    at: Array
    length: Array
    frames: Array


class InjectedMemory:
    """Memory for one run's library, `depth` frames of a stack kept, none where 0.

    Nothing of it outlives omn and the programs that have it mapped, however these end. Raises MachineRefused where
    there is no room for it.
    """

    def __init__(self, depth: int) -> None:
        try:
            self._descriptor = os.memfd_create("omn-injected", os.MFD_CLOEXEC)
            os.ftruncate(self._descriptor, _BYTES)
            # What programs write to first is there already: they would wait for each page of it.
            os.posix_fallocate(self._descriptor, ffi.offsetof(_MEMORY, "records"), _READY_BYTES)
            self._map = mmap.mmap(self._descriptor, _BYTES)
        except OSError as error:
            raise MachineRefused(f"no memory can be shared with the program: {error.strerror}") from None
        self._native = ffi.from_buffer(f"{_MEMORY} *", self._map)
        self._consumed = ffi.new("uint32_t[]", lib.OMN_INJECTED_BUFFERS)
        self._parts = np.zeros(lib.OMN_INJECTED_BUFFERS, PART)
        self._cost = ffi.new("struct omn_injected_cost *")
        self._depth = depth
        lib.omn_injected_begin(self._native, depth)

    @property
    def path(self) -> str:
        """Where programs open it."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def deepen(self, depth: int) -> None:
        """Have the library keep so many frames of a stack, where it would keep fewer, before any program opens it."""
        if depth > self._depth:
            self._depth = depth
            lib.omn_injected_begin(self._native, depth)

    def turn(self, *, is_on: bool) -> None:
        """Have the library record from now on, or no longer."""
        lib.omn_injected_turn(self._native, is_on)

    def drain(self) -> Part | None:
        """Take what was written since the last time, None where nothing was."""
        content = np.empty(lib.omn_injected_waiting(self._native, self._consumed), np.uint8)
        out = ffi.from_buffer("uint8_t[]", content)
        parts = ffi.from_buffer("struct omn_injected_part[]", self._parts)
        count = lib.omn_injected_drain(self._native, self._consumed, out, len(content), parts, self._cost)
        owners = self._parts[:count].copy()
        return Part(content[: int(owners["bytes"].sum())], owners) if count else None

    @property
    def lost(self) -> int:
        """How many records found no room."""
        return int(self._native.lost)

    @property
    def lost_stacks(self) -> int:
        """How many stacks found no room."""
        return int(self._native.lost_stacks)

    @property
    def lost_processes(self) -> int:
        """How many processes found no room."""
        return int(self._native.lost_processes)

    def read_processes(self) -> Array:
        """Read the processes that the library came into, in that order: a number in a `Part` is one's place here."""
        count = min(self._native.process_count, lib.OMN_INJECTED_PROCESSES)
        return self._copy("processes", PROCESS, count)

    def read_stacks(self) -> Stacks:
        """Read the stacks that were kept."""
        stacks = self._copy("stacks", _STACK, lib.OMN_INJECTED_STACKS)
        return Stacks(stacks["at"], stacks["length"], self._copy("frames", np.dtype("u8"), self._native.frame_count))

    def compute_cost(self, calls: int) -> tuple[int, int]:
        """Compute what so many calls cost the programs, in nanoseconds, and how many timed ones were left out.

        A few are timed, and stand for all. One that was interrupted is left out, and is priced as the others.
        """
        cost = ffi.new("struct omn_injected_cost *", self._cost[0])
        lib.omn_injected_add_cost(self._native, cost)
        return (calls * int(cost.timed_ns) // int(cost.timed) if cost.timed else 0), int(cost.timed_long)

    def _copy(self, field: str, layout: np.dtype[Any], count: int) -> Array:
        return np.frombuffer(self._map, layout, count, ffi.offsetof(_MEMORY, field)).copy()

    def close(self) -> None:
        """Let go of it. What it holds is lost; programs that still run go on with theirs."""
        self.turn(is_on=False)
        self._native = None
        self._map.close()
        os.close(self._descriptor)
