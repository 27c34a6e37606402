"""Session files followed while they grow: each whole line once, in the order of its file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from omn_agent.importing.lines import LONGEST_LINE

_MOST_AT_ONCE = 16 << 20


@attrs.define
class _Followed:
    """A file under way: where its next line begins, and which file that was."""

    identity: tuple[int, int]
    offset: int = 0
    is_whole: bool = False
    """It holds one object, read whole when it is first one: what a harness writes beside a child's file."""


@attrs.define
class Follower:
    """Reads what files grow by. Only those that changed since `since_ns`, on the clock of files, are read at all."""

    since_ns: int
    malformed: int = 0
    too_long: int = 0
    replaced: int = 0
    _files: dict[Path, _Followed] = attrs.field(factory=dict)

    def read(self, path: Path, is_last: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the objects of the lines that a file has grown by.

        A line without its end is waited for, unless nothing will be written any more (`is_last`). A file that was
        replaced or made shorter is read from its beginning: whoever reads records twice knows them by their ids.
        """
        followed = self._files.get(path)
        try:
            if followed is None and path.stat().st_mtime_ns < self.since_ns:
                return
            with path.open("rb", buffering=0) as file:
                found = os.fstat(file.fileno())
                identity = (found.st_dev, found.st_ino)
                if followed is None or followed.identity != identity or found.st_size < followed.offset:
                    self.replaced += followed is not None
                    followed = self._files[path] = _Followed(identity)
                if found.st_size > followed.offset and not followed.is_whole:
                    file.seek(followed.offset)
                    content = file.read(_MOST_AT_ONCE)
                    yield from self._take(path, followed, content, is_last and len(content) < _MOST_AT_ONCE)
        except OSError:  # not there yet, or no more
            return

    def has_more(self, path: Path) -> bool:
        """Return whether a file holds whole lines that were not read yet."""
        followed = self._files.get(path)
        try:
            return followed is not None and path.stat().st_size - followed.offset >= _MOST_AT_ONCE
        except OSError:
            return False

    def _take(self, path: Path, followed: _Followed, content: bytes, is_last: bool) -> Iterator[dict[str, Any]]:
        if path.name.endswith(".meta.json"):
            record = _parse(content)
            followed.is_whole = record is not None
            if record is not None:
                yield record
            return
        whole = content if is_last else content[: content.rfind(b"\n") + 1]
        if not whole and len(content) == _MOST_AT_ONCE:
            self._skip(followed, content)
            return
        followed.offset += len(whole)
        for line in whole.split(b"\n"):
            if line.strip():
                record = _parse(line)
                if record is None:
                    self.malformed += 1
                else:
                    yield record

    def _skip(self, followed: _Followed, content: bytes) -> None:
        """Go past a part of a line that is longer than any that is read."""
        self.too_long += 1
        followed.offset += len(content)


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line) if len(line) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
