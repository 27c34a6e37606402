"""A trace file: clock snapshots and sequences, every packet framed, events by time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from collections.abc import Sequence as Listed
from typing import BinaryIO

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from omn_export.perfetto.sequence import Sequence
from omn_export.perfetto.tracks import Clock, ClockSnapshot

_PACKET = 0x0A  # field 1 of Trace, length-delimited


def publish(
    stream: BinaryIO,
    sequences: Listed[Sequence],
    snapshots: Listed[ClockSnapshot] = (),
    primary: Clock = Clock.REALTIME,
    machine_id: int | None = None,
) -> int:
    """Write sequences as one trace and return its packets.

    Each sequence gets an id of its own. Snapshots come first, because a trace's primary clock cannot change after its
    first event was placed; then what each sequence begins with, then events by their timestamps, of all sequences
    together. Sequences of one trace must have one clock to be ordered by it.
    """
    count = 0
    for snapshot in snapshots:
        count += _write(stream, _make_snapshot(snapshot, primary, machine_id))
    streams = [sequence.iter_packets(index) for index, sequence in enumerate(sequences, 1)]
    events = []
    for packets in streams:
        for ts_ns, packet in packets:
            if ts_ns is not None:
                events.append(_prepend((ts_ns, packet), packets))
                break
            count += _write(stream, packet)
    for _, packet in heapq.merge(*events, key=lambda pair: pair[0]):
        count += _write(stream, packet)
    return count


def _prepend(first: tuple[int, bytes], rest: Iterable[tuple[int | None, bytes]]) -> Iterable[tuple[int, bytes]]:
    yield first
    for ts_ns, packet in rest:
        assert ts_ns is not None
        yield ts_ns, packet


def _make_snapshot(snapshot: ClockSnapshot, primary: Clock, machine_id: int | None) -> bytes:
    packet = protos.TracePacket()
    if machine_id is not None:
        packet.machine_id = machine_id
    packet.clock_snapshot.primary_trace_clock = primary
    for clock, value in snapshot.clocks.items():
        packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=value)
    content: bytes = packet.SerializeToString()
    return content


def _write(stream: BinaryIO, packet: bytes) -> int:
    stream.write(bytes((_PACKET,)) + _encode_length(len(packet)) + packet)
    return 1


def _encode_length(length: int) -> bytes:
    parts = bytearray()
    while length > 0x7F:
        parts.append(length & 0x7F | 0x80)
        length >>= 7
    parts.append(length)
    return bytes(parts)
