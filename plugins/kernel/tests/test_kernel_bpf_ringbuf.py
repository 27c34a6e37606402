"""The ring buffer emptied natively, from memory laid out as the kernel does: around the end, up to what is busy."""

from __future__ import annotations

import mmap
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.native._bpf import ffi, lib

BUSY, DISCARDED = 1 << 31, 1 << 30
SIZE = 1024


def pad(length: int) -> int:
    return (length + 7) // 8 * 8


class MadeRing:
    """A ring buffer in ordinary memory, its data twice in a row, into which records are put as the kernel puts them."""

    def __init__(self, begin: int) -> None:
        self.reader = bytearray(mmap.PAGESIZE)
        self.writer = bytearray(mmap.PAGESIZE + 2 * SIZE)
        self.written = begin
        struct.pack_into("=Q", self.reader, 0, begin)
        struct.pack_into("=Q", self.writer, 0, begin)
        self.held = [ffi.from_buffer("uint8_t[]", memory) for memory in (self.reader, self.writer)]
        self.native: Any = ffi.new("struct omn_ringbuf *")
        self.native.reader, self.native.writer = (ffi.cast("void *", one) for one in self.held)
        self.native.size = SIZE

    @property
    def read(self) -> int:
        position: int = struct.unpack_from("=Q", self.reader)[0]
        return position

    def put(self, content: bytes, flags: int = 0) -> bool:
        """Write a record where there is room for it; its bytes stand at both places that are one in the kernel's."""
        record = struct.pack("=II", len(content) | flags, 0) + content.ljust(pad(len(content)), b"\0")
        if self.written + len(record) - self.read > SIZE:
            return False
        for offset, byte in enumerate(record):
            for copy in (0, SIZE):
                self.writer[mmap.PAGESIZE + (self.written + offset) % SIZE + copy] = byte
        self.written += len(record)
        struct.pack_into("=Q", self.writer, 0, self.written)
        return True

    def clear_busy(self, position: int) -> None:
        for copy in (0, SIZE):
            self.writer[mmap.PAGESIZE + position % SIZE + copy + 3] &= 0x7F

    def drain(self, room: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        out = np.zeros(max(room, 1), np.uint8)
        return out[: lib.omn_ringbuf_drain(self.native, ffi.from_buffer("uint8_t[]", out), room)]


def gather(data: np.ndarray[Any, np.dtype[np.uint8]], size: int) -> list[bytes]:
    given_bytes = ffi.from_buffer("uint8_t[]", np.ascontiguousarray(data))
    count = lib.omn_ringbuf_gather(given_bytes, len(data), size, ffi.NULL)
    rows = np.zeros((count, size), np.uint8)
    if count:
        assert lib.omn_ringbuf_gather(given_bytes, len(data), size, ffi.from_buffer("uint8_t[]", rows)) == count
    return [row.tobytes() for row in rows]


@pytest.mark.spec("KRN-4")
@given(
    st.integers(0, 1 << 40).map(lambda start: 8 * start),
    st.lists(st.integers(0, 3), max_size=60),
    st.integers(32, 2048),
)
def test_every_record_is_drained_once_and_whole(begin: int, kinds: list[int], room: int) -> None:
    """Around the end, in as many calls as a small buffer needs; those thrown away and those of others' sizes apart."""
    ring = MadeRing(begin)
    wanted: list[bytes] = []
    taken: list[bytes] = []
    for mark, kind in enumerate(kinds):
        content = bytes([mark + 1]) * (20 if kind else 12)
        while not ring.put(content, DISCARDED if kind == 3 else 0):
            taken += gather(ring.drain(room), 20)
        wanted += [content] if kind in (1, 2) else []
    while ring.read != ring.written:
        taken += gather(ring.drain(room), 20)
    assert taken == wanted


def test_a_record_that_is_being_written_holds_back_what_follows() -> None:
    """Nothing of it or after it is taken until it is whole."""
    ring = MadeRing(SIZE - 48)
    assert ring.put(b"a" * 16)
    busy = ring.written
    assert ring.put(b"b" * 16, BUSY)
    assert ring.put(b"c" * 16)
    assert gather(ring.drain(SIZE), 16) == [b"a" * 16]
    assert len(ring.drain(SIZE)) == 0
    assert lib.omn_ringbuf_waiting(ring.native) == 48
    ring.clear_busy(busy)
    assert gather(ring.drain(SIZE), 16) == [b"b" * 16, b"c" * 16]
    assert lib.omn_ringbuf_waiting(ring.native) == 0


def test_a_record_of_no_bytes_is_waited_for_too() -> None:
    """Its header is the mark alone that it is being written."""
    ring = MadeRing(0)
    assert ring.put(b"", BUSY)
    assert len(ring.drain(SIZE)) == 0
    ring.clear_busy(0)
    assert gather(ring.drain(SIZE), 0) == [b""]


@given(st.binary(max_size=400))
def test_bytes_that_are_no_records_are_survived(data: bytes) -> None:
    """Whatever stands there, reading ends within it."""
    content = np.frombuffer(data, np.uint8)
    for function in (lib.omn_ringbuf_gather, lib.omn_raw_samples_gather):
        given_bytes = ffi.from_buffer("uint8_t[]", content)
        count = function(given_bytes, len(data), 8, ffi.NULL)
        assert count * 8 <= len(data)


@given(st.lists(st.tuples(st.sampled_from([2, 9]), st.integers(0, 30)), max_size=40))
def test_raw_samples_are_told_from_other_records(parts: list[tuple[int, int]]) -> None:
    """A record of what was lost stands between them; a sample of another size is not ours."""
    data, wanted = b"", []
    for mark, (kind, length) in enumerate(parts):
        content = bytes([mark]) * length
        raw = content.ljust(pad(12 + length) - 12, b"\0")
        data += struct.pack("=IHHI", kind, 0, 12 + len(raw), len(raw)) + raw
        wanted += [raw[:20]] if kind == 9 and len(raw) == 20 else []
    given_bytes = ffi.from_buffer("uint8_t[]", bytearray(data))
    count = lib.omn_raw_samples_gather(given_bytes, len(data), 20, ffi.NULL)
    rows = np.zeros((count, 20), np.uint8)
    if count:
        lib.omn_raw_samples_gather(given_bytes, len(data), 20, ffi.from_buffer("uint8_t[]", rows))
    assert [row.tobytes() for row in rows] == wanted
