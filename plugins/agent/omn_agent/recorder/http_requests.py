"""Requests of HTTP/1.1 taken out of a connection's bytes: whole or chunked, plain or compressed, none too long."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

import attrs

LONGEST_HEAD = 32 << 10
LONGEST_BODY = 32 << 20
_GZIP = 31
"""The window bits with which zlib reads gzip's own frame."""


@attrs.frozen
class HttpRequest:
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class BadRequest(Exception):
    """What cannot be read, or is longer than is kept: the connection ends with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@attrs.define
class RequestReader:
    """A connection's bytes, and the requests in them."""

    _held: bytearray = attrs.field(factory=bytearray)

    def feed(self, content: bytes) -> Iterator[HttpRequest]:
        """Take bytes in, and yield the requests that are whole. Raises BadRequest."""
        self._held += content
        while (request := self._take()) is not None:
            yield request

    def _take(self) -> HttpRequest | None:
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            if len(self._held) > LONGEST_HEAD:
                raise BadRequest(431)
            return None
        first, headers = _parse_head(bytes(self._held[:end]))
        found = self._find_body(end + 4, headers)
        if found is None:
            return None
        body, after = found
        del self._held[:after]
        return HttpRequest(first[0], first[1], headers, _unpack(body, headers))

    def _find_body(self, at: int, headers: Mapping[str, str]) -> tuple[bytes, int] | None:
        """Return a body and where it ends, None where it is not whole yet."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._find_chunks(at)
        length = headers.get("content-length", "0")
        if not length.isdigit():
            raise BadRequest(400)
        if int(length) > LONGEST_BODY:
            raise BadRequest(413)
        end = at + int(length)
        return (bytes(self._held[at:end]), end) if len(self._held) >= end else None

    def _find_chunks(self, at: int) -> tuple[bytes, int] | None:
        body = bytearray()
        while True:
            line_end = self._held.find(b"\r\n", at)
            if line_end < 0:
                return None
            try:
                size = int(self._held[at:line_end].partition(b";")[0], 16)
            except ValueError:
                raise BadRequest(400) from None
            if not 0 <= size <= LONGEST_BODY - len(body):
                raise BadRequest(413)
            at = line_end + 2
            if size == 0:
                trailers_end = self._held.find(b"\r\n", at)
                return None if trailers_end < 0 else (bytes(body), trailers_end + 2)
            if len(self._held) < at + size + 2:
                return None
            body += self._held[at : at + size]
            at += size + 2


def _parse_head(head: bytes) -> tuple[list[str], dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    first = lines[0].split(" ")
    if len(first) != 3 or not first[2].startswith("HTTP/1."):
        raise BadRequest(400)
    pairs = (line.partition(":") for line in lines[1:])
    return first, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _unpack(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body as it was before it was compressed. Raises BadRequest for another way, or one that is too long."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return body
    if encoding != "gzip":
        raise BadRequest(415)
    unpacking = zlib.decompressobj(_GZIP)
    try:
        whole = unpacking.decompress(body, LONGEST_BODY)
    except zlib.error:
        raise BadRequest(400) from None
    if not unpacking.eof:
        raise BadRequest(413 if unpacking.unconsumed_tail else 400)
    return whole
