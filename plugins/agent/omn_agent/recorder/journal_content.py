"""What a journal holds, read back: by the recorder that wrote it, or by whoever recovers it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from omn_agent.harness import Harness
from omn_agent.importing.fields import find_nanoseconds, find_text, get_object
from omn_agent.importing.lines import Account
from omn_agent.recorder.clock import Reading
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.journal import parse_line
from omn_core.api import RequestError


@attrs.define
class JournalContent:
    """A journal's lines by what they are. `corrupt` counts those that were torn or changed. Times are monotonic."""

    begin: dict[str, Any]
    harness: Harness
    readings: list[Reading] = attrs.field(factory=list)
    events: list[HarnessEvent] = attrs.field(factory=list)
    records: dict[Path, list[dict[str, Any]]] = attrs.field(factory=dict)
    owned: dict[Path, str] = attrs.field(factory=dict)
    owners: dict[Path, int] = attrs.field(factory=dict)
    """The processes that had a session file open."""
    starts: dict[int, int] = attrs.field(factory=dict)
    parents: dict[int, int] = attrs.field(factory=dict)
    """Of a process with a session the nearest above it that has one as well."""
    samples: dict[int, list[tuple[int, int, int]]] = attrs.field(factory=dict)
    """Of each process the memory and the CPU time, by when they were read."""
    depths: list[tuple[int, int]] = attrs.field(factory=list)
    machine: list[dict[str, Any]] = attrs.field(factory=list)
    losses: list[tuple[int, dict[str, int]]] = attrs.field(factory=list)
    degradations: list[str] = attrs.field(factory=list)
    end: dict[str, Any] | None = None
    last_ns: int = 0
    corrupt: int = 0

    def iter_records(self, path: Path, account: Account) -> Iterator[dict[str, Any]]:
        """Yield what was journaled of a session file, as importers read files."""
        for record in self.records.get(path, ()):
            account.lines += 1
            yield record

    def read_object(self, path: Path) -> dict[str, Any]:
        """Return what a file held that is one object; empty where there is none."""
        return next(iter(self.records.get(path, ())), {})


def read_journal(path: Path, pending: bytes = b"") -> JournalContent:
    """Read a journal, and what follows in it that could not be written; lines that are torn or changed are counted.

    Raises RequestError where the file cannot be read, or does not begin as a journal does.
    """
    try:
        with path.open("rb") as file:
            lines = itertools.chain(file, pending.splitlines(keepends=True))
            first = parse_line(next(lines, b""))
            begin = first if first is not None and first.get("k") == "begin" else None
            harness = find_text(begin, "harness")
            if begin is None or harness not in {known.value for known in Harness}:
                raise RequestError(
                    f"{str(path)!r} is no journal of a recording", "`omn agent record` says where its journal is"
                )
            content = JournalContent(begin, Harness(harness))
            _take_clock(content, begin)
            paths: dict[int, Path] = {}
            for line in lines:
                record = parse_line(line)
                if record is None:
                    content.corrupt += 1
                else:
                    _take(content, record, paths)
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    return content


def _take(content: JournalContent, record: dict[str, Any], paths: dict[int, Path]) -> None:
    kind = record["k"]
    stamp_ns = find_nanoseconds(record, "s")
    content.last_ns = max(content.last_ns, stamp_ns or 0)
    if kind == "clock":
        _take_clock(content, record)
    elif kind == "event":
        content.events.append(
            HarnessEvent(
                content.harness, stamp_ns or 0, find_text(record, "i"), str(record.get("n")), get_object(record, "p")
            )
        )
    elif kind == "file":
        paths[record["f"]] = Path(record["path"])
    elif kind == "line" and record.get("f") in paths:
        content.records.setdefault(paths[record["f"]], []).append(get_object(record, "r"))
    elif kind in ("owned", "process"):
        _take_owner(content, record)
    elif kind in ("sample", "queue"):
        _take_reading(content, record, stamp_ns or 0)
    elif kind == "machine":
        content.machine.append(get_object(record, "part"))
    elif kind == "losses":
        content.losses.append((stamp_ns or 0, get_object(record, "counts")))
    elif kind == "degraded":
        content.degradations.append(str(record.get("text")))
    elif kind == "end":
        content.end = record


def _take_owner(content: JournalContent, record: dict[str, Any]) -> None:
    if record["k"] == "process":
        content.starts[record["pid"]] = record["start_ns"]
        if record["parent"] is not None:
            content.parents[record["pid"]] = record["parent"]
    else:
        content.owned.setdefault(Path(record["path"]), record["how"])
        if record["pid"] is not None:
            content.owners[Path(record["path"])] = record["pid"]


def _take_reading(content: JournalContent, record: dict[str, Any], ts_ns: int) -> None:
    if record["k"] == "queue":
        content.depths.append((ts_ns, record["depth"]))
    else:
        readings = content.samples.setdefault(record["pid"], [])
        readings.append((ts_ns, record["resident_bytes"], record["cpu_us"]))


def _take_clock(content: JournalContent, record: dict[str, Any]) -> None:
    reading = Reading(*record["clocks"])
    content.readings.append(reading)
    content.last_ns = max(content.last_ns, reading.monotonic_ns)
