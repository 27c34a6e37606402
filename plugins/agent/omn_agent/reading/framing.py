"""A trace file taken apart into its packets, a piece at a time: a file of any size takes the memory of one packet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import attrs

from omn_core.api import RequestError

LARGEST_PACKET = 64 << 20
_CHUNK = 1 << 20
_PACKET_FIELD = 1
_LENGTH_DELIMITED = 2
_LONGEST_VARINT = 10


@attrs.define
class FileHealth:
    """What became of a file's bytes."""

    path: str
    packets: int = 0
    skipped_packets: int = 0
    undecodable_packets: int = 0
    torn_bytes: int = 0
    framed_bytes: int = 0
    dropped_packets: int = 0
    clock_errors: int = 0
    unfinished_ends: int = 0


class _Buffer:
    """A stream read in chunks, of which the beginning was taken already."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held = b""
        self._at = 0
        self.taken = 0
        """How far into the stream everything is that was taken or left out."""

    def need(self, count: int) -> bool:
        """Hold at least so many bytes. Returns False where the stream ends before."""
        size = len(self._held) - self._at
        if size >= count:
            return True
        parts = [self._held[self._at :]]
        while size < count:
            part = self._stream.read(max(_CHUNK, count - size))
            if not part:
                break
            parts.append(part)
            size += len(part)
        self._held, self._at = b"".join(parts), 0
        return size >= count

    def take(self, count: int) -> bytes:
        """Take bytes that are held."""
        found = self._held[self._at : self._at + count]
        self._at += count
        self.taken += count
        return found

    def skip(self, count: int) -> int:
        """Leave bytes out, and return how many the stream had."""
        left = count
        while left and self.need(1):
            step = min(left, len(self._held) - self._at)
            self._at += step
            self.taken += step
            left -= step
        return count - left

    def take_varint(self) -> int | None:
        """Take a number, None where the stream ends inside it or it is none."""
        value = 0
        for place in range(_LONGEST_VARINT):
            if self._at >= len(self._held) and not self.need(1):
                return None
            byte = self._held[self._at]
            self._at += 1
            self.taken += 1
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        return None


def iter_packets(path: Path, health: FileHealth) -> Iterator[bytes]:
    """Yield each packet's bytes. What cannot be framed ends the file: those bytes are counted as torn.

    Raises RequestError where the file cannot be read, holds nothing, or is a trace of another format.
    """
    try:
        with path.open("rb") as stream:
            _refuse_others(stream, path)
            yield from _iter_framed(_Buffer(stream), health)
            health.torn_bytes = max(os.fstat(stream.fileno()).st_size - health.framed_bytes, 0)
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _refuse_others(stream: BinaryIO, path: Path) -> None:
    head = stream.read(64)
    stream.seek(0)
    if not head:
        raise RequestError(f"{str(path)!r} is empty", "name a Perfetto recording")
    if head.lstrip()[:1] in (b"{", b"["):
        raise RequestError(f"{str(path)!r} is a JSON trace", "recordings are Perfetto's protobuf")
    if head.startswith(b"\x1f\x8b"):
        raise RequestError(f"{str(path)!r} is compressed with gzip", "unpack it first")


def _iter_framed(buffer: _Buffer, health: FileHealth) -> Iterator[bytes]:
    while buffer.need(1):
        tag = buffer.take_varint()
        length = buffer.take_varint() if tag is not None and tag & 7 == _LENGTH_DELIMITED else None
        if tag is None or length is None:
            return
        if tag >> 3 != _PACKET_FIELD or length > LARGEST_PACKET:
            if buffer.skip(length) < length:
                return
            health.skipped_packets += 1
            health.framed_bytes = buffer.taken
        elif buffer.need(length):
            packet = buffer.take(length)
            health.packets += 1
            health.framed_bytes = buffer.taken
            yield packet
        else:
            return
