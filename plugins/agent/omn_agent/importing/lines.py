"""Session files line by line: JSON objects in order, and an account of what was no object."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import attrs

from omn_core.api import RequestError

LONGEST_LINE = 64 << 20
"""A longer line is counted and skipped: nothing of a session is of that size but a mistake."""


@attrs.define
class Account:
    """What became of the lines of one import."""

    lines: int = 0
    malformed: int = 0
    unknown: int = 0
    duplicates: int = 0
    untimed: int = 0
    unknown_kinds: dict[str, int] = attrs.field(factory=dict)
    refused: list[str] = attrs.field(factory=list)
    """Why each file of a folder was left out that is no session."""

    def note_unknown(self, kind: object) -> None:
        """Count a line of a kind that nobody knows."""
        self.unknown += 1
        name = str(kind)[:60]
        self.unknown_kinds[name] = self.unknown_kinds.get(name, 0) + 1


class Files(Protocol):
    """Where session files are read from: themselves, or a journal that holds what they held."""

    def iter_records(self, path: Path, account: Account) -> Iterator[dict[str, Any]]:
        """Yield each line's object."""

    def read_object(self, path: Path) -> dict[str, Any]:
        """Return what a file holds that is one object, empty where there is none."""


class Disk:
    """Session files as they stand on the disk."""

    def iter_records(self, path: Path, account: Account) -> Iterator[dict[str, Any]]:
        """Yield each line's object. Raises RequestError where the file cannot be read."""
        return iter_records(path, account)

    def read_object(self, path: Path) -> dict[str, Any]:
        """Return what a file holds that is one object, empty where there is none."""
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


DISK = Disk()


def iter_records(path: Path, account: Account) -> Iterator[dict[str, Any]]:
    """Yield each line's object. Lines end at LF alone: other separators are legal inside JSON texts.

    `.zst` is decompressed as it is read; what does not unpack ends the file as a torn line does. Raises RequestError
    where the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from _iter_packed(file, account) if path.suffix == ".zst" else _iter_objects(file, account)
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _iter_packed(file: BinaryIO, account: Account) -> Iterator[dict[str, Any]]:
    import zstandard

    unpacked = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    try:
        yield from _iter_objects(io.BufferedReader(unpacked), account)
    except zstandard.ZstdError:
        account.lines += 1
        account.malformed += 1


def _iter_objects(stream: BinaryIO, account: Account) -> Iterator[dict[str, Any]]:
    while line := stream.readline(LONGEST_LINE):
        is_whole = line.endswith(b"\n")
        while not is_whole and len(line) == LONGEST_LINE:  # drop the rest of a line that is too long
            line = stream.readline(LONGEST_LINE)
            is_whole = line.endswith(b"\n") or not line
            if is_whole:
                line = b"{"
        if not line.strip():
            continue
        account.lines += 1
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            yield record
        else:
            account.malformed += 1
