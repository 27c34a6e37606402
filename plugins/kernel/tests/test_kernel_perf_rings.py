"""Rings emptied of whole records, whatever their size and however they wrap; and rings that no memory is locked for."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.native._perf import ffi, lib
from omn_kernel.perf import rings
from omn_kernel.perf.rings import Rings

from omn_core.api import MachineRefused

_HEAD, _TAIL = 1024, 1032
"""Where data_head and data_tail stand in struct perf_event_mmap_page (<linux/perf_event.h>)."""


class MadeRing:
    """A ring in ordinary memory, into which records are put as the kernel puts them."""

    def __init__(self, size: int, begin: int) -> None:
        self.memory = bytearray(mmap.PAGESIZE + size)
        self.size = size
        self.head = begin
        struct.pack_into("=QQ", self.memory, _HEAD, begin, begin)

    @property
    def tail(self) -> int:
        """What the reader has given back."""
        tail: int = struct.unpack_from("=Q", self.memory, _TAIL)[0]
        return tail

    def put(self, record: bytes) -> bool:
        """Write a record where there is room for it, around the end."""
        if self.head + len(record) - self.tail > self.size:
            return False
        for offset, byte in enumerate(record):
            self.memory[mmap.PAGESIZE + (self.head + offset) % self.size] = byte
        self.head += len(record)
        struct.pack_into("=Q", self.memory, _HEAD, self.head)
        return True


def drain(made: list[MadeRing], room: int) -> tuple[bytes, list[int]]:
    held = [ffi.from_buffer("uint8_t[]", ring.memory) for ring in made]
    native: Any = ffi.new("struct omn_ring[]", len(made))
    for index, (ring, memory) in enumerate(zip(made, held, strict=True)):
        native[index].base, native[index].size = ffi.cast("void *", memory), ring.size
    out = np.zeros(max(room, 1), np.uint8)
    lengths = ffi.new("uint64_t[]", len(made))
    used = lib.omn_rings_drain(native, len(made), ffi.from_buffer("uint8_t[]", out), room, lengths)
    return out[:used].tobytes(), list(lengths)


def make_record(length: int, mark: int) -> bytes:
    return struct.pack("=IHH", 9, mark, 8 + 8 * length) + bytes([mark]) * 8 * length


@pytest.mark.spec("KRN-7")
@given(
    st.integers(0, 1 << 40).map(lambda start: 8 * start),
    st.lists(st.integers(0, 40), max_size=30),
    st.integers(8, 4096),
)
def test_every_record_is_drained_once_and_whole(begin: int, lengths: list[int], room: int) -> None:
    """Around the end of the ring, and in as many calls as a small buffer needs, so long as the longest one fits it."""
    room = max(room, 8 + 8 * 40)
    ring = MadeRing(1024, begin)
    put = [record for mark, length in enumerate(lengths) if ring.put(record := make_record(length, mark + 1))]
    taken = b""
    for _ in range(len(put) + 1):
        part, (length,) = drain([ring], room)
        assert len(part) == length <= room
        taken += part
    assert taken == b"".join(put)
    assert ring.tail == ring.head


def test_rings_follow_one_another() -> None:
    """One buffer holds what every ring had, and the lengths say whose; one that has no more room waits."""
    first, second = MadeRing(1024, 0), MadeRing(1024, 1000)
    first.put(make_record(3, 1))
    second.put(make_record(5, 2))
    data, lengths = drain([first, second], 4096)
    assert (data, lengths) == (make_record(3, 1) + make_record(5, 2), [32, 48])
    first.put(make_record(3, 3))
    second.put(make_record(5, 4))
    assert drain([first, second], 40) == (make_record(3, 3), [32, 0])
    assert drain([first, second], 48) == (make_record(5, 4), [0, 48])


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[tuple[int, int]]]:
    """Refuse rings above a size, as the kernel does that locks no more memory, and note what was asked."""

    class Stub:
        def __init__(self, largest: int) -> None:
            self.asked: list[tuple[int, int]] = []
            self.largest = largest

        def omn_ring_map(self, descriptor: int, size: int, ring: Any) -> int:
            self.asked.append((descriptor, size))
            return 0 if size <= self.largest or descriptor == 1 else -1

        def omn_ring_unmap(self, ring: Any) -> None:
            """Nothing was mapped."""

    def refuse(largest: int) -> list[tuple[int, int]]:
        stub = Stub(largest)
        monkeypatch.setattr(rings, "lib", stub)
        return stub.asked

    return refuse


@pytest.mark.spec("KRN-7")
def test_a_refused_ring_halves_every_one(refusals: Callable[[int], list[tuple[int, int]]]) -> None:
    """So that no cpu has less room than another: the first is mapped anew too."""
    asked = refusals(1 << 14)
    assert Rings([1, 2], 1 << 16).size == 1 << 14
    assert asked == [(1, 1 << 16), (2, 1 << 16), (1, 1 << 15), (2, 1 << 15), (1, 1 << 14), (2, 1 << 14)]


@pytest.mark.spec("KRN-7")
def test_rings_that_no_memory_is_locked_for_are_refused_by_what_bounds_it(
    refusals: Callable[[int], list[tuple[int, int]]],
) -> None:
    """The setting, the limit and the capability by name."""
    refusals(0)
    with pytest.raises(MachineRefused) as caught:
        Rings([2, 3])
    said = f"{caught.value.reason} {caught.value.remedy}"
    assert "kernel.perf_event_mlock_kb is" in said
    assert "RLIMIT_MEMLOCK" in said
