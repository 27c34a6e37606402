"""What an import says of itself: what it wrote, and what became of every line."""

from __future__ import annotations

from pathlib import Path

from omn_agent.importing.lines import Account
from omn_agent.recording import Recording
from omn_core.api import render_printable


def render_account(path: Path, recording: Recording, account: Account) -> str:
    """Return the lines that an import ends with."""
    children = sum(capture.parent_session is not None for capture in recording.captures)
    responses = sum(len(capture.responses) for capture in recording.captures)
    tools = sum(len(capture.tools) for capture in recording.captures)
    sessions = len(recording.captures) - children
    first = f"{path}: {sessions} sessions, {children} children, {responses} responses, {tools} tool calls"
    second = (
        f"{account.lines} lines: {account.duplicates} records were there already, {account.unknown} of unknown kinds, "
        f"{account.malformed} no JSON objects, {account.untimed} without a time"
    )
    kinds = sorted(account.unknown_kinds.items(), key=lambda pair: -pair[1])[:5]
    unknown = [f"unknown kinds: {', '.join(f'{name!r} {count}' for name, count in kinds)}"] if kinds else []
    refused = [f"left out: {len(account.refused)} files, the first: {account.refused[0]}"] if account.refused else []
    unverified = any(capture.fields.get("unverified") for capture in recording.captures)
    note = ["unverified: no session of this harness was at hand when its reader was written"] if unverified else []
    return "\n".join(map(render_printable, [first, second, *unknown, *refused, *note]))
