"""A harness's files, found below what was named, and read into one recording."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omn_export.perfetto.tracks import Clock, ClockSnapshot

from omn_agent.harness import Harness
from omn_agent.health import describe_health
from omn_agent.importing.lines import Account, iter_records
from omn_agent.importing.session import Session
from omn_agent.recording import Capture, Recording
from omn_core.api import RequestError

UNCERTAINTY_NS = 1_000_000
"""Session files are stamped in milliseconds, by a clock that may be set."""

_SUFFIXES = (".jsonl", ".jsonl.zst")


def find_files(harness: Harness, place: Path) -> list[Path]:
    """Return the session files at a place: itself, with a session's children beside it, or all below a folder.

    Raises RequestError where there is none.
    """
    if place.is_dir():
        found = sorted(path for path in place.rglob("*") if path.is_file() and path.name.endswith(_SUFFIXES))
    elif place.is_file():
        children = place.parent / "subagent" if harness is Harness.MUSE else place.with_suffix("") / "subagents"
        found = [place, *sorted(path for path in children.rglob("*.jsonl") if path.is_file())]
        if harness is Harness.CLAUDE and not place.stem.startswith("agent-"):
            found += [path for path in sorted(place.parent.glob("agent-*.jsonl")) if _is_child(path, place.stem)]
    else:
        raise RequestError(f"{str(place)!r} is not there", "name a session's file or a folder that holds some")
    if harness is Harness.MUSE and place.is_dir():
        found = [path for path in found if path.name == "session.jsonl"]
    if not found:
        raise RequestError(f"no session's file is below {str(place)!r}", f"{harness.value} writes them as .jsonl")
    return found


def _leave_out(paths: list[Path], check: Callable[[Path, dict[str, Any]], None], account: Account) -> list[Path]:
    """Return a folder's files without those that are no session, and note why. Raises RequestError where none is."""
    kept: list[Path] = []
    refusals: list[RequestError] = []
    for path in paths:
        try:
            check(path, next(iter_records(path, Account()), {}))
            kept.append(path)
        except RequestError as error:
            refusals.append(error)
    if not kept:
        raise refusals[0]
    account.refused += [error.reason for error in refusals]
    return kept


def _is_child(path: Path, session: str) -> bool:
    """Return whether a file beside a session's is a child's of it: older versions kept all of a folder's there."""
    first = next(iter_records(path, Account()), {})
    return first.get("sessionId") == session


def _make_capture(harness: Harness, session: Session, has_content: bool) -> Capture | None:
    session.fields = {"imported": True, **session.fields}
    return session.make_capture(f"{harness.value}-import-{session.session_id}", "end-of-file", has_content)


def read_recording(harness: Harness, place: Path, has_content: bool) -> tuple[Recording, Account]:
    """Read session files into a recording. Nobody recorded a process or a boot: all there is is the wall clock.

    Raises RequestError where nothing at the place is a session that can be placed in time.
    """
    account = Account()
    reader = importlib.import_module(f"omn_agent.importing.{harness.value}")
    paths = find_files(harness, place)
    if place.is_dir():
        paths = _leave_out(paths, reader.check_beginning, account)
    sessions = reader.read_sessions(paths, account)
    found = (_make_capture(harness, session, has_content) for session in sessions)
    captures = [capture for capture in found if capture is not None]
    if not captures:
        raise RequestError(f"nothing in {str(place)!r} says when it happened", "is it a session of another harness?")
    captures.sort(key=lambda capture: capture.start_ns)
    counts = {
        "import_lines": account.lines,
        "malformed_lines": account.malformed,
        "unknown_lines": account.unknown,
        "duplicate_records": account.duplicates,
        "untimed_records": account.untimed,
    }
    if account.refused:
        counts["refused_files"] = len(account.refused)
    captures[0].fields |= describe_health(counts)
    start_ns = captures[0].start_ns
    recording = Recording(
        harness, captures, Clock.REALTIME, UNCERTAINTY_NS, [ClockSnapshot({Clock.REALTIME: start_ns})]
    )
    return recording, account
