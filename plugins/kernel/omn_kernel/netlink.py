"""Netlink dumps: a question about every object of a kind, its answer in many messages, the attributes in them.

See netlink(7) and <linux/netlink.h>. A dump is kept as the kernel's own bytes and the places of its messages, so that
thousands of objects cost no object each.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping

import attrs

ROUTE, SOCK_DIAG = 0, 4
"""NETLINK_ROUTE and NETLINK_SOCK_DIAG."""

HEADER_BYTES = 16
_HEADER = struct.Struct("=IHHI")
_NUMBER = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")

_ERROR, _DONE = 2, 3
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_KIND_MASK = 0x3FFF
"""NLMSG_ERROR, NLMSG_DONE; NLM_F_REQUEST, NLM_F_DUMP, NLM_F_DUMP_INTR; NLA_TYPE_MASK."""

_TRIES = 8
_PATIENCE = struct.pack("@ll", 5, 0)


class DumpInterrupted(OSError):
    """Raised when every try of a dump was torn by changes of what it lists, or its answers did not fit."""


@attrs.define(eq=False)
class Dump:
    """The answer to one question: its bytes, and where the body of each message starts and ends in them."""

    content: bytes
    bodies: list[tuple[int, int]]


@attrs.define(eq=False)
class _Answer:
    """A dump as it comes in. `is_torn` says that objects came or went while it was made, or that a part was lost."""

    parts: list[bytes]
    bodies: list[tuple[int, int]]
    length: int = 0
    is_torn: bool = False
    is_done: bool = False


class NetlinkSocket:
    """A netlink socket that dumps are asked of. `repeated` counts the dumps that had to be asked for once more."""

    def __init__(self, connection: socket.socket) -> None:
        self.repeated = 0
        self._connection = connection
        # The kernel answers at once or never; a reading must not wait for good.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
        self._buffer = bytearray(1 << 16)
        self._sequence = 0

    def dump(self, kind: int, body: bytes) -> Dump:
        """Ask for every object of a kind: a message type, and the body of the request.

        A dump in which the kernel says that objects came or went meanwhile (NLM_F_DUMP_INTR), or of which a part did
        not fit, is not used but repeated. Raises DumpInterrupted when none was whole, OSError with the kernel's errno.
        """
        for _ in range(_TRIES):
            answer = self._ask(kind, body)
            if not answer.is_torn:
                return Dump(b"".join(answer.parts), answer.bodies)
            self.repeated += 1
        raise DumpInterrupted(errno.EINTR, f"what the kernel listed changed under {_TRIES} readings of it")

    def _ask(self, kind: int, body: bytes) -> _Answer:
        self._sequence += 1
        length = HEADER_BYTES + len(body)
        header = struct.pack("=IHHII", length, kind, _REQUEST | _DUMP, self._sequence, 0)
        self._connection.send(header + body)
        answer = _Answer([], [])
        while not answer.is_done:
            self._receive(answer)
        return answer

    def _receive(self, answer: _Answer) -> None:
        """Take one datagram in. One that did not fit tears the dump, and the next one has room for it."""
        try:
            length = self._connection.recv_into(self._buffer, 0, socket.MSG_TRUNC)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            answer.is_torn = True
            return
        content = bytes(memoryview(self._buffer)[:length])
        if length > len(self._buffer):
            answer.is_torn = True
            self._buffer = bytearray(2 * length)
        take_datagram(answer, content, self._sequence)

    def close(self) -> None:
        """Let go of the socket."""
        self._connection.close()


def take_datagram(answer: _Answer, content: bytes, sequence: int) -> None:
    """Find the messages of a datagram that answer the question of a number. Raises OSError for the kernel's refusal.

    What is left of an earlier dump that was given up carries that one's number and is passed over.
    """
    place, end = 0, len(content)
    while place + HEADER_BYTES <= end:
        length, kind, flags, number = _HEADER.unpack_from(content, place)
        if length < HEADER_BYTES:
            break
        if number == sequence:
            answer.is_torn |= bool(flags & _INTERRUPTED)
            if kind > _DONE:
                start = answer.length + place
                answer.bodies.append((start + HEADER_BYTES, start + length))
            elif kind in (_DONE, _ERROR):
                answer.is_done = True
                _raise_refusal(content, place + HEADER_BYTES, min(place + length, end))
        place += length + 3 & ~3
    # Every message starts at a multiple of four, so that its numbers can be read as columns.
    padding = b"\0" * (-end % 4)
    answer.parts.append(content + padding)
    answer.length += end + len(padding)


def _raise_refusal(content: bytes, start: int, end: int) -> None:
    """Raise what the number at the end of a dump says. Kernels before 4.11 end a dump without one."""
    if end - start < _NUMBER.size:
        return
    number = _NUMBER.unpack_from(content, start)[0]
    if number < 0:
        raise OSError(-number, os.strerror(-number))


def iter_attributes(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the kind of each attribute, and where its payload starts and ends. The flags in a kind are taken off."""
    while start + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(content, start)
        if length < 4 or start + length > end:
            return
        yield kind & _KIND_MASK, start + 4, start + length
        start += length + 3 & ~3


def find_attributes(content: bytes, start: int, end: int) -> Mapping[int, tuple[int, int]]:
    """Find where the payload of each attribute starts and ends, by its kind; the last one of a kind counts."""
    return {kind: (first, last) for kind, first, last in iter_attributes(content, start, end)}


def parse_text(content: bytes, place: tuple[int, int]) -> str:
    """Parse an attribute's text, which ends with a zero byte."""
    return content[place[0] : place[1]].rstrip(b"\0").decode("utf-8", "surrogateescape")


def parse_number(content: bytes, place: tuple[int, int]) -> int:
    """Parse an attribute of an unsigned number of this machine's byte order, however wide."""
    return int.from_bytes(content[place[0] : place[1]], "little" if struct.pack("=H", 1)[0] else "big")
