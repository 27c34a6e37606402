"""What is seen of processes: a session that a tool of another started is in a process of its own, and its child."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omn_agent.importing.fields import find_count, find_text
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings, Window

ENDED = "process-exit"


def place_sessions(findings: Findings, owners: Mapping[str, int], parents: Mapping[int, int]) -> None:
    """Say which process each session is in; one whose process descends from another session's is that one's child.

    `owners` are the processes of sessions, `parents` has of each process the one above it. Of several sessions that
    follow one another in the process above, it is the child of the last that had begun.
    """
    findings.processes |= owners
    mains = [name for name in findings.processes if findings.sessions[name].parent_session is None]
    mains.sort(key=lambda name: findings.sessions[name].first_ns or 0)
    for at, name in enumerate(mains):
        above = parents.get(findings.processes[name])
        before = [other for other in mains[:at] if above is not None and findings.processes[other] == above]
        if before:
            findings.sessions[name].parent_session = before[-1]


def apply_events(findings: Findings, events: Sequence[HarnessEvent]) -> None:
    """Let children have the windows of their processes; any other session's are what hooks and its file say."""
    for event in events:
        parent = find_text(event.payload, "parent_session")
        if event.session_id is None or event.session_id not in findings.sessions:
            continue  # nothing is known of it but that it ran
        session = findings.sessions[event.session_id]
        windows = findings.windows.get(event.session_id)
        if event.kind == "process.session_seen" and parent in findings.sessions and windows is None:
            session.parent_session = session.parent_session or parent
            is_resumed = session.first_ns is not None and session.first_ns < findings.start_ns
            pid = find_count(event.payload, "pid")
            findings.windows[event.session_id] = [Window(event.stamp_ns, pid=pid, is_resumed=is_resumed)]
        elif event.kind == "process.session_gone" and windows is not None and windows[-1].closed_ns is None:
            windows[-1].closed_ns, windows[-1].reason = event.stamp_ns, ENDED
