"""A journal put together as a recording: session files read, events applied, sessions cut to their windows."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
from omn_export.perfetto.tracks import Clock

from omn_agent.harness import Harness
from omn_agent.health import describe_health
from omn_agent.importing.fields import find_count, find_text, get_object
from omn_agent.importing.lines import Account
from omn_agent.importing.session import Session
from omn_agent.machine.model import Machine, make_machine
from omn_agent.recorder.clock import Timeline
from omn_agent.recorder.correlate import apply_events
from omn_agent.recorder.findings import Findings, Window
from omn_agent.recorder.journal_content import JournalContent
from omn_agent.recorder.process_events import place_sessions
from omn_agent.recorder.retime import retime
from omn_agent.recorder.windows import cut_session, list_windows, make_segment_ids, make_snap
from omn_agent.recording import Capture, Process, Recording

INFERRED = (
    "no source named a session: the session files that grew in this folder meanwhile were taken for the harness's"
)
LOST = "what the machine did was in memory until the end, and went with the recorder"
_THREADED = (Harness.CLAUDE, Harness.PI)
"""Harnesses whose main thread runs their JavaScript: its id is the process's, and what they run is their own child."""


@attrs.frozen
class Composed:
    """A recording, and what stands between it and the truth: figures by their names, and sentences."""

    recording: Recording
    health: dict[str, int]
    degradations: list[str]


def compose(content: JournalContent) -> Composed:
    """Return the recording that a journal tells of."""
    timeline = Timeline(content.readings)
    findings = Findings(
        content.harness,
        content.begin.get("content") is True,
        timeline,
        content.readings[0].monotonic_ns,
        content.last_ns if content.end is None else content.end["s"],
        is_cut=content.end is None,
    )
    degradations = list(content.degradations)
    paths, is_inferred = _choose_files(content)
    if is_inferred and paths:
        degradations.append(INFERRED)
    account = Account()
    reader = importlib.import_module(f"omn_agent.importing.{content.harness.value}")
    for session in reader.read_sessions(paths, account, content):
        retime(session, timeline.compute_monotonic)
        findings.sessions[session.session_id] = session
    apply_events(findings, content.events)
    place_sessions(findings, _find_owners(findings, content), content.parents)
    _count(findings, content, account)
    recording = Recording(
        content.harness,
        _make_captures(findings, content),
        Clock.MONOTONIC,
        timeline.uncertainty_ns,
        [reading.make_snapshot() for reading in content.readings],
        find_text(content.begin, "boot"),
        _make_machine(content, degradations),
    )
    if recording.captures:
        recording.captures[0].fields |= describe_health(findings.health, degradations)
    return Composed(recording, findings.health, degradations)


def _make_machine(content: JournalContent, degradations: list[str]) -> Machine | None:
    """Return what the machine did, the clients of hooks marked in it: they are the recorder's own."""
    machine = make_machine(content.machine)
    if machine is None:
        if content.begin.get("is_accompanied") is True and content.end is None:
            degradations.append(LOST)
        return None
    clients: dict[int | None, list[int]] = {}
    for event in content.events:
        clients.setdefault(find_count(event.payload, "client"), []).append(event.stamp_ns)
    for life in machine.lives or ():
        stamps = clients.get(life.pid, ())
        life.is_recorder = any((life.start_ns or 0) <= ts_ns <= (life.end_ns or ts_ns) for ts_ns in stamps)
    return machine


def _choose_files(content: JournalContent) -> tuple[list[Path], bool]:
    """Return the session files of the launched harness, and whether only their folder says that they are.

    Those that a hook named or the process had open, those of the sessions that events are of, and of both the children.
    """
    named = {event.session_id for event in content.events}
    files = [path for path in content.records if not path.name.endswith(".meta.json")]
    owned = {path for path in files if path in content.owned or _is_named(path, named)}
    if not owned and not content.owned and not named - {None}:
        folder = find_text(content.begin, "working_folder")
        is_by_folder = content.harness is Harness.CLAUDE  # each of its files stands in its working folder's own
        return [path for path in files if is_by_folder or folder in _list_folders(content, path)], True
    children = {path for path in files if any(_is_below(path, parent) for parent in owned)}
    sessions = {find_text(record, "sessionId") for path in owned for record in content.records[path][:1]}
    beside = {path for path in files if find_text(content.records[path][0], "sessionId") in sessions - {None}}
    return sorted(owned | children | beside), False


def _is_named(path: Path, sessions: set[str | None]) -> bool:
    """Return whether a file's name, or its folder's, is or ends with the id of one of some sessions."""
    parts = {path.stem, path.parent.name, path.stem.rpartition("_")[2]}
    return bool(parts & sessions) or any(name is not None and path.stem.endswith(f"-{name}") for name in sessions)


def _is_below(path: Path, parent: Path) -> bool:
    return parent.with_suffix("") in path.parents or (parent.name == "session.jsonl" and parent.parent in path.parents)


def _find_owners(findings: Findings, content: JournalContent) -> dict[str, int]:
    """Return the process of each session: that which had its file open, or that which its own events are of."""
    named = {path: [name for name in findings.sessions if _is_named(path, {name})] for path in content.owners}
    owners = {name: content.owners[path] for path, names in named.items() for name in names}
    if findings.harness in _THREADED:
        owners |= {name: rows[0].pid for name, rows in findings.windows.items() if rows and rows[0].pid is not None}
    return owners


def _list_folders(content: JournalContent, path: Path) -> set[str | None]:
    """Return the working folders that a session file names."""
    found: set[str | None] = set()
    for record in content.records[path][:50]:
        payload = get_object(record, "payload")
        for place in (record, payload, get_object(payload, "record")):
            found |= {find_text(place, "cwd"), find_text(place, "workspace_root")}
    return found - {None}


def _count(findings: Findings, content: JournalContent, account: Account) -> None:
    """Add up what was lost, and what became of lines."""
    findings.count("journal_corrupt", content.corrupt)
    findings.count("unknown_lines", account.unknown)
    findings.count("duplicate_records", account.duplicates)
    for reason, count in (content.losses[-1][1] if content.losses else {}).items():
        findings.count(reason, count)


def _make_captures(findings: Findings, content: JournalContent) -> list[Capture]:
    """Return a capture for each window of each session; children know the window of their parent by its id."""
    windows = {name: list_windows(findings, session) for name, session in findings.sessions.items()}
    for name, session in findings.sessions.items():
        retime(session, make_snap([window.opened_ns for window in windows[name]]))
    _stretch(findings, windows)
    captures = []
    for name, session in findings.sessions.items():
        ids = make_segment_ids(name, len(windows[name]))
        for segment, window in zip(ids, windows[name], strict=True):
            captures.append(_make_capture(findings, content, session, segment, window))
            captures[-1].parent_session = _find_parent(session, window, windows)
    captures.sort(key=lambda capture: (capture.start_ns, capture.parent_session is not None))
    if captures:
        _add_health(captures[0], findings, content)
        _label_process(captures)
    return captures


def _stretch(findings: Findings, windows: dict[str, list[Window]]) -> None:
    """Let the last of the sessions that no hook opened or closed last until the recording's end: its harness did."""
    own = [
        found[-1]
        for name, found in windows.items()
        if found and findings.sessions[name].parent_session is None and name not in findings.windows
    ]
    last = max(own, key=lambda window: window.closed_ns or 0, default=None)
    if last is not None:
        last.closed_ns, last.reason = None, None


def _find_parent(session: Session, window: Window, windows: dict[str, list[Window]]) -> str | None:
    """Return the id of the parent's window in which a child began, the parent's own where none is known."""
    parent = session.parent_session
    if parent is None:
        return None
    opened = [at for at, known in enumerate(windows.get(parent, ())) if known.opened_ns <= window.opened_ns]
    return make_segment_ids(parent, opened[-1] + 1)[-1] if opened else parent


def _make_capture(
    findings: Findings, content: JournalContent, session: Session, segment: str, window: Window
) -> Capture:
    closed_ns = findings.end_ns if window.closed_ns is None else min(window.closed_ns, findings.end_ns)
    end_reason = find_text(content.end, "reason") or "recorder-interrupted"
    capture = cut_session(session, window.opened_ns, closed_ns).make_capture(
        f"{find_text(content.begin, 'id')}-{segment}", window.reason or end_reason, findings.has_content
    )
    assert capture is not None
    capture.session_id = segment
    capture.native_session_id = session.session_id if segment != session.session_id else None
    capture.label = find_text(content.begin, "label") if session.parent_session is None else None
    capture.is_fresh = not window.is_resumed and capture.is_fresh
    capture.started_before_capture = any(prompt.started_before_capture for prompt in capture.prompts)
    if findings.is_cut and window.closed_ns is None:
        capture.end_ns = capture.stop_reason = None
    launched = next(iter(content.starts), None)
    pid = findings.processes.get(session.session_id, launched)
    if findings.harness in _THREADED and window.pid is not None:
        pid = window.pid
    if pid is not None:
        parent = session.parent_session
        is_own = parent is None or pid != findings.processes.get(parent, launched)
        is_main = findings.harness in _THREADED and is_own
        capture.process = Process(pid, pid if is_main else None, content.starts.get(pid))
        if is_own:
            _add_samples(capture, content.samples.get(pid, ()), closed_ns)
    return capture


def _add_samples(capture: Capture, samples: Iterable[tuple[int, int, int]], until_ns: int) -> None:
    """Give a capture what was sampled of its process meanwhile."""
    for ts_ns, resident_bytes, cpu_us in samples:
        if capture.start_ns <= ts_ns < until_ns:
            capture.samples.resident_bytes.append((ts_ns, resident_bytes))
            capture.samples.cpu_us.append((ts_ns, cpu_us))


def _label_process(captures: list[Capture]) -> None:
    """Name the agent on its process, where a process is one agent's and that agent is in no other."""
    pairs = {(row.process.pid, row.native_session_id or row.session_id) for row in captures if row.process is not None}
    processes = Counter(pid for pid, _ in pairs)
    agents = Counter(session for _, session in pairs)
    for capture in captures:
        process, agent = capture.process, capture.native_session_id or capture.session_id
        if process is not None and processes[process.pid] == agents[agent] == 1:
            capture.process = attrs.evolve(process, labels=(capture.label or agent[:8],))


def _add_health(capture: Capture, findings: Findings, content: JournalContent) -> None:
    """Give the first capture what the recording itself went through: how much waited in it, and what it lost.

    What was read after its end stands at its end.
    """
    until_ns = findings.end_ns if capture.end_ns is None else capture.end_ns
    depths: dict[int, int] = {}
    for ts_ns, depth in content.depths:
        place_ns = min(ts_ns, until_ns - 1)
        depths[place_ns] = max(depth, depths.get(place_ns, 0))
    capture.samples.queue_depth += [pair for pair in depths.items() if pair[0] >= capture.start_ns]
    for ts_ns, counts in content.losses:
        if capture.start_ns <= ts_ns:
            capture.samples.dropped_events.append((min(ts_ns, until_ns - 1), sum(_iter_dropped(counts))))
    capture.fields |= findings.health


def _iter_dropped(counts: dict[str, Any]) -> Iterable[int]:
    """Yield how many were lost, by each reason: a line that is malformed is no event."""
    return (count for reason, count in counts.items() if not reason.endswith(("_lines", "_files")))
