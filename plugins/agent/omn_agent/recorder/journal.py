"""A recording's journal: what was seen, line by line, for whoever puts the recording together, also after a crash.

Each line is `CRC32 JSON`. It is a file of its owner alone, written once a second and at most so long: what comes later
is dropped and counted. What was written survives the recorder's death, not the machine's.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from pathlib import Path
from typing import Any

import attrs

from omn_core.api import MachineRefused

MOST_BYTES = 512 << 20
_RESERVE = 1 << 20
"""What is kept free for how the recording ended and what it lost."""
_MOST_PENDING = 8 << 20
_WRITE_AT = 1 << 20

FULL = "journal_full"
UNWRITTEN = "journal_unwritten"
_VITAL = frozenset({"end", "losses", "queue", "clock", "degraded"})


@attrs.define
class Journal:
    """An open journal. `lost` counts the lines that it could not take, by the reason."""

    path: Path
    descriptor: int
    most_bytes: int = MOST_BYTES
    size: int = 0
    pending: bytearray = attrs.field(factory=bytearray)
    lost: dict[str, int] = attrs.field(factory=dict)
    _waiting: int = 0
    _deepest: int = 0

    def add(self, kind: str, **fields: Any) -> None:
        """Add a line: written with the next flush, or dropped and counted where the journal is as long as it may be."""
        line = encode_line({"k": kind, **fields})
        room = self.most_bytes - (0 if kind in _VITAL else _RESERVE) - self.size - len(self.pending)
        if len(line) > room:
            self._lose(FULL)
        elif len(self.pending) + len(line) > _MOST_PENDING and kind not in _VITAL:
            self._lose(UNWRITTEN)
        else:
            self.pending += line
            self._waiting += 1
            self._deepest = max(self._deepest, self._waiting)
            if len(self.pending) >= _WRITE_AT:
                self.flush()

    def take_depth(self) -> int:
        """Return how many lines waited to be written at most since this was asked last."""
        deepest, self._deepest = self._deepest, self._waiting
        return deepest

    def flush(self) -> None:
        """Write what is pending. What a full disk does not take stays pending, and is tried again."""
        while self.pending:
            try:
                written = os.pwrite(self.descriptor, self.pending, self.size)
            except OSError:
                return
            whole = self.pending.rfind(b"\n", 0, written) + 1
            self.size += whole
            self._waiting -= self.pending.count(b"\n", 0, whole)
            del self.pending[:whole]
            if whole == 0:  # less than a line: its beginning is written over by the next try
                return

    def close(self) -> None:
        """Write what is pending, cut off what was begun and is no line, and close.

        What a full disk did not take is pending still: whoever closes it can put it together with what was written.
        """
        self.flush()
        os.ftruncate(self.descriptor, self.size)
        os.close(self.descriptor)

    def _lose(self, reason: str) -> None:
        self.lost[reason] = self.lost.get(reason, 0) + 1


def create_journal(path: Path, most_bytes: int = MOST_BYTES) -> Journal:
    """Create a journal, mode 0600. Raises MachineRefused where it cannot be."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineRefused(
            f"the journal {str(path)!r} cannot be written: {error.strerror}", "name another folder with OMN_CACHE_DIR"
        ) from error
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as long as its recorder lives nobody recovers it
    return Journal(path, descriptor, most_bytes)


def encode_line(record: dict[str, Any]) -> bytes:
    """Return a record as a journal's line."""
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return a line's record, None where it is torn or anything of it was changed."""
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    try:
        if not line.endswith(b"\n") or int(checksum, 16) != zlib.crc32(body):
            return None
        record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
