"""Sessions cut to the windows in which they were recorded: what was before is left out, never filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import attrs

from omn_agent.importing.session import Session
from omn_agent.recorder.findings import Findings, Window
from omn_agent.recording import Compaction, Configuration, Prompt, Request, Response, Tool

_STAMP_NS = 1_000_000

Row = TypeVar("Row", Tool, Compaction)


def list_windows(findings: Findings, session: Session) -> list[Window]:
    """Return when a session was open in the recording, as hooks said it, or as its own stamps do."""
    known = findings.windows.get(session.session_id)
    if known is None:
        if session.first_ns is None or session.last_ns is None or session.last_ns < findings.start_ns:
            return []
        known = [
            Window(session.first_ns, session.last_ns, "last-record", is_resumed=session.first_ns < findings.start_ns)
        ]
    cut = []
    for window in known:
        closed_ns = findings.end_ns if window.closed_ns is None else window.closed_ns
        if closed_ns >= findings.start_ns and window.opened_ns <= findings.end_ns:
            opened_ns = _find_beginning(session, window) if window is known[0] else window.opened_ns
            cut.append(attrs.evolve(window, opened_ns=max(opened_ns, findings.start_ns)))
    return cut


def _find_beginning(session: Session, window: Window) -> int:
    """Return when a session that is new began: a child's file has its task before the hook that tells of the child.

    Any other is open from when it was said to be: what its file begins with may be stamped before another was closed.
    """
    is_known = session.parent_session is not None and not window.is_resumed and session.first_ns is not None
    return min(window.opened_ns, session.first_ns or 0) if is_known else window.opened_ns


def cut_session(session: Session, opened_ns: int, closed_ns: int) -> Session:
    """Return what a session did in a window.

    A prompt or a tool that was under way when it opened is there from then on; a response that was is left out, and
    tokens of before are.
    """
    prompts = sorted(session.prompts, key=lambda prompt: prompt.start_ns)
    return attrs.evolve(
        session,
        prompts=_cut_prompts(session, prompts, opened_ns, closed_ns),
        requests=[row for row in session.requests if _is_whole(row, opened_ns, closed_ns)],
        responses=[row for row in session.responses if _is_whole(row, opened_ns, closed_ns)],
        tools={
            row.call_id: row for row in _keep(session.tools.values(), lambda row: _cut_tool(row, opened_ns, closed_ns))
        },
        compactions=_keep(session.compactions, lambda row: _cut_compaction(row, opened_ns, closed_ns)),
        workflows=[row for row in session.workflows if opened_ns <= row.start_ns <= closed_ns],
        other_usages=[pair for pair in session.other_usages if opened_ns <= pair[0] <= closed_ns],
        context=[pair for pair in session.context if opened_ns <= pair[0] <= closed_ns],
        heap=[pair for pair in session.heap if opened_ns <= pair[0] < closed_ns],
        configurations=_cut_configurations(session, opened_ns, closed_ns),
        interruptions=[ts_ns for ts_ns in session.interruptions if opened_ns <= ts_ns <= closed_ns],
        fields=dict(session.fields),
        first_ns=opened_ns,
        last_ns=closed_ns,
    )


def _keep(rows: Iterable[Row], cut: Callable[[Row], Row | None]) -> list[Row]:
    return [kept for row in rows if (kept := cut(row)) is not None]


def make_snap(openings: Sequence[int]) -> Callable[[int], int]:
    """Return what carries a time of a session file into the window that it is of.

    Files are stamped in whole milliseconds, cut off: what was just after an opening is stamped as of just before.
    """

    def snap(ts_ns: int) -> int:
        near = (opened_ns for opened_ns in openings if 0 < opened_ns - ts_ns < _STAMP_NS)
        return next(near, ts_ns)

    return snap


def make_segment_ids(session_id: str, windows: int) -> list[str]:
    """Return the ids of a session's windows: its own, then with a suffix where it was revisited."""
    return [session_id, *(f"{session_id}#{number}" for number in range(2, windows + 1))][:windows]


def _is_whole(row: Request | Response, opened_ns: int, closed_ns: int) -> bool:
    start_ns = row.end_ns if row.start_ns is None else row.start_ns
    assert start_ns is not None
    return opened_ns <= start_ns <= closed_ns and (row.end_ns is None or row.end_ns <= closed_ns)


def _cut_prompts(session: Session, prompts: list[Prompt], opened_ns: int, closed_ns: int) -> list[Prompt]:
    kept = []
    following = [*(prompt.start_ns for prompt in prompts), closed_ns + 1][1:]
    for prompt, until_ns in zip(prompts, following, strict=True):
        if opened_ns <= prompt.start_ns <= closed_ns:
            is_over = prompt.end_ns is not None and prompt.end_ns <= closed_ns
            kept.append(prompt if is_over else attrs.evolve(prompt, end_ns=None))
        elif prompt.start_ns < opened_ns < until_ns and _goes_on(session, prompt, opened_ns, until_ns):
            kept.append(attrs.evolve(prompt, start_ns=opened_ns, text=None, length=None, started_before_capture=True))
    return kept


def _goes_on(session: Session, prompt: Prompt, opened_ns: int, until_ns: int) -> bool:
    """Return whether a prompt of before was still worked at: anything was done from the opening to the next."""
    if prompt.end_ns is not None:
        return prompt.end_ns > opened_ns
    rows: list[Response | Tool] = [*session.responses, *session.tools.values()]
    return any(row.end_ns is not None and opened_ns <= row.end_ns < until_ns for row in rows)


def _cut_tool(tool: Tool, opened_ns: int, closed_ns: int) -> Tool | None:
    if tool.end_ns is not None and tool.end_ns < opened_ns:
        return None
    start_ns = tool.end_ns if tool.start_ns is None else tool.start_ns
    if start_ns is None or start_ns > closed_ns:
        return None
    if tool.start_ns is not None and tool.start_ns < opened_ns:
        return None if tool.end_ns is None else _leave_out_start(tool, opened_ns)
    return attrs.evolve(tool, end_ns=None) if tool.end_ns is not None and tool.end_ns > closed_ns else tool


def _leave_out_start(tool: Tool, opened_ns: int) -> Tool:
    """Return what is left of a tool that was under way when a window opened."""
    seen_ns = tool.middleware_ns if tool.middleware_ns is not None and tool.middleware_ns >= opened_ns else None
    return attrs.evolve(tool, start_ns=None, preflight_ns=None, middleware_ns=seen_ns, args=None, has_args=False)


def _cut_compaction(row: Compaction, opened_ns: int, closed_ns: int) -> Compaction | None:
    start_ns = row.end_ns if row.start_ns is None else row.start_ns
    if start_ns is None or start_ns > closed_ns or (row.end_ns is not None and row.end_ns < opened_ns):
        return None
    if row.start_ns is not None and row.start_ns < opened_ns:
        return None if row.end_ns is None else attrs.evolve(row, start_ns=None)
    return attrs.evolve(row, end_ns=None) if row.end_ns is not None and row.end_ns > closed_ns else row


def _cut_configurations(session: Session, opened_ns: int, closed_ns: int) -> list[tuple[int, Configuration]]:
    ordered = sorted(session.configurations, key=lambda pair: pair[0])
    before = [found for ts_ns, found in ordered if ts_ns < opened_ns]
    inside = [(ts_ns, found) for ts_ns, found in ordered if opened_ns <= ts_ns <= closed_ns]
    return [*((opened_ns, found) for found in before[-1:]), *inside]
