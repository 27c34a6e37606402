"""What emptying the rings costs that programs and events fill, beside a copy of the same bytes; and decoding them."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from omn_kernel.bpf.transport import RingBuffer, Transport
from omn_kernel.native import _bpf, _perf

RECORD = np.dtype([("ns", np.uint64), ("task", np.uint64), ("rest", np.uint64, 4)])
SIZE = 1 << 22
ROUNDS = 30
MOST_OF_A_COPY = 2.0
LEAST_RECORDS_PER_SECOND = 2_000_000


def take_best(call: Callable[[], object]) -> float:
    """Return the shortest of some runs, in seconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def make_ring_buffer_bytes() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Lay records of 48 bytes out as the ring buffer does, four mebibytes of them."""
    count = SIZE // 56
    rows = np.zeros(count, np.dtype([("length", np.uint32), ("page", np.uint32), ("record", RECORD)]))
    rows["length"] = 48
    rows["record"]["ns"] = np.arange(count) + np.tile([0, 7], count // 2 + 1)[:count]
    return rows.view(np.uint8)


def make_raw_samples() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The same as raw samples of perf events."""
    fields = [("kind", "u4"), ("misc", "u2"), ("size", "u2"), ("raw", "u4"), ("record", RECORD), ("pad", "u4")]
    rows = np.zeros(SIZE // 64, np.dtype(fields))
    rows["kind"], rows["size"], rows["raw"] = 9, 64, 52
    rows["record"]["ns"] = np.arange(len(rows))
    return rows.view(np.uint8)


def time_drain_of_ring_buffer(data: np.ndarray[Any, np.dtype[np.uint8]], out: Any) -> float:
    ffi, lib = _bpf.ffi, _bpf.lib
    reader, writer = bytearray(mmap.PAGESIZE), bytearray(mmap.PAGESIZE + 2 * SIZE)
    writer[: mmap.PAGESIZE] = len(data).to_bytes(8, "little").ljust(mmap.PAGESIZE, b"\0")
    writer[mmap.PAGESIZE : mmap.PAGESIZE + len(data)] = data.tobytes()
    held = [ffi.from_buffer("uint8_t[]", memory) for memory in (reader, writer)]
    ring = ffi.new("struct omn_ringbuf *")
    ring.reader, ring.writer, ring.size = *(ffi.cast("void *", one) for one in held), SIZE
    place = ffi.from_buffer("uint8_t[]", out)

    def drain() -> None:
        reader[:8] = bytes(8)
        assert lib.omn_ringbuf_drain(ring, place, len(out)) == len(data)

    return take_best(drain)


def time_drain_of_perf_ring(data: np.ndarray[Any, np.dtype[np.uint8]], out: Any) -> float:
    ffi, lib = _perf.ffi, _perf.lib
    memory = bytearray(mmap.PAGESIZE + SIZE)
    memory[1024:1032] = len(data).to_bytes(8, "little")
    memory[mmap.PAGESIZE : mmap.PAGESIZE + len(data)] = data.tobytes()
    held = ffi.from_buffer("uint8_t[]", memory)
    ring = ffi.new("struct omn_ring[]", 1)
    ring[0].base, ring[0].size = ffi.cast("void *", held), SIZE
    lengths, place = ffi.new("uint64_t[]", 1), ffi.from_buffer("uint8_t[]", out)

    def drain() -> None:
        memory[1032:1040] = bytes(8)
        assert lib.omn_rings_drain(ring, 1, place, len(out), lengths) == len(data)

    return take_best(drain)


@pytest.mark.spec("KRN-8")
@pytest.mark.parametrize(
    ("make", "time_drain"),
    [(make_ring_buffer_bytes, time_drain_of_ring_buffer), (make_raw_samples, time_drain_of_perf_ring)],
)
def test_emptying_a_ring_costs_at_most_two_copies(make: Any, time_drain: Any) -> None:
    """Of the same bytes, into the same place; the best of thirty each."""
    data = make()
    source, out = data.copy(), np.zeros(SIZE, np.uint8)
    target = out[: len(data)]
    copy = take_best(lambda: np.copyto(target, source))
    drain = time_drain(data, out)
    assert np.array_equal(target, data)
    print(f"{time_drain.__name__}: {drain / copy:.2f} copies")
    assert drain <= MOST_OF_A_COPY * copy


@pytest.mark.spec("KRN-8")
def test_records_are_decoded_at_two_million_a_second() -> None:
    """Records of two cpus that came out of order, laid side by side and put in the order of their stamps."""
    data = make_ring_buffer_bytes()
    transport = RingBuffer.__new__(RingBuffer)  # decoding takes the type of a record alone, and no kernel
    transport.record = RECORD
    parts = [data] * 4

    def decode() -> None:
        rows = Transport.decode(transport, parts)
        assert len(rows) == 4 * (len(data) // 56)

    per_second = 4 * (len(data) // 56) / take_best(decode)
    print(f"{per_second / 1e6:.1f} M records a second, on one of {os.cpu_count()} cpus")
    assert per_second >= LEAST_RECORDS_PER_SECOND
