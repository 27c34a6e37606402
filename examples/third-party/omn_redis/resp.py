"""The Redis serialization protocol, as much of it as asking for INFO takes: one command, one reply.

The protocol is described at redis.io under "RESP protocol spec"; version 2 is what every server speaks until asked
for another. A reply comes from a stranger: its length is bounded and its form checked.
"""

from __future__ import annotations

import socket

MAXIMUM_REPLY_BYTES = 16 << 20
"""A reply longer than this is no INFO."""


class ReplyError(Exception):
    """What a server said no with: its own words, the error's class first (`NOAUTH Authentication required.`)."""


class ProtocolError(OSError):
    """Something answered that does not speak this protocol, or stopped in the middle of a reply."""


class Connection:
    """One open connection to a server. Every call blocks for at most `timeout` seconds a packet."""

    def __init__(self, address: tuple[str, int], timeout: float) -> None:
        self._socket = socket.create_connection(address, timeout)
        self._buffer = bytearray()

    def call(self, *words: str) -> bytes:
        """Send a command and return its reply's bytes.

        Raises ReplyError where the server refuses it, ProtocolError where the answer is none, and OSError (a timeout
        among them) where nothing answers.
        """
        self._socket.sendall(render_command(words))
        line = self._read_line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise ReplyError(rest.decode("utf-8", "replace"))
        if kind in (b"+", b":"):
            return bytes(rest)
        if kind != b"$":
            raise ProtocolError(f"a reply begins with {bytes(line[:16])!r}")
        return self._read_bulk(rest)

    def close(self) -> None:
        """Let the connection go."""
        self._socket.close()

    def _read_bulk(self, length: bytes) -> bytes:
        if not length.isdigit() or int(length) > MAXIMUM_REPLY_BYTES:
            raise ProtocolError(f"a reply states its length as {bytes(length[:16])!r}")
        size = int(length)
        while len(self._buffer) < size + 2:
            self._receive()
        body = bytes(self._buffer[:size])
        del self._buffer[: size + 2]
        return body

    def _read_line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > 4096:
                raise ProtocolError("a reply's first line does not end")
            self._receive()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _receive(self) -> None:
        packet = self._socket.recv(65536)
        if not packet:
            raise ProtocolError("the server closed the connection")
        self._buffer += packet


def render_command(words: tuple[str, ...]) -> bytes:
    """Return a command as the array of strings that a server reads."""
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        encoded = word.encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(encoded), encoded))
    return b"".join(parts)
