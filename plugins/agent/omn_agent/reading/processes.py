"""Processes of a recording given to the tools that they belong to, and how that is known.

A process belongs to a tool by identity, where its environment named the tool's span when it was executed, or by time,
where it was forked inside the tool by nobody who belongs to another. What a process of a tool's makes is the tool's
too. Where several tools that may run processes were under way, nobody can tell which of them it is of: it is said to be
of either, and of none.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

import attrs

from omn_agent.reading.captures import ReadCapture
from omn_agent.reading.spans import Span

IDENTITY, TEMPORAL, AMBIGUOUS = "identity", "temporal", "ambiguous"

IN_PROCESS = frozenset(
    {"apply_patch", "edit", "ls", "multiedit", "notebookedit", "read", "todoread", "todowrite", "update_plan", "write"}
)
"""Tools that work in the harness's own process, in lower case: nothing that is forked meanwhile is theirs."""


@attrs.define(eq=False)
class ReadTool:
    """A tool with the time in which what it ran can have begun.

    That is from its announcement to its end: its execution is placed back from there by the length that the harness
    told, and may seem to begin after its process did.
    """

    capture: ReadCapture
    span: Span
    start_ns: int
    end_ns: int
    processes: list[ReadProcess] = attrs.field(factory=list)
    disputed: list[ReadProcess] = attrs.field(factory=list)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.span.args.get("name") or self.span.name)

    @property
    def is_in_process(self) -> bool:
        """Whether it runs nothing: it works in the harness's own process, or in a child's session."""
        return self.name.lower() in IN_PROCESS or self.span.args.get("delegation") is True


@attrs.define(eq=False)
class ReadProcess:
    """A process as a recording tells of it. `tools` are those that it may be of: one is known, more are in dispute."""

    span: Span
    evidence: str | None = None
    tools: tuple[ReadTool, ...] = ()

    @property
    def end_ns(self) -> int:
        """When it ended, or until when it was seen."""
        return self.span.start_ns if self.span.end_ns is None else self.span.end_ns

    @property
    def is_foreign(self) -> bool:
        """Whether it is the harness itself, or what a recorder's own hook ran."""
        return self.span.args.get("started_before_capture") is True or self.span.args.get("is_recorder") is True


def make_tools(captures: Iterable[ReadCapture]) -> list[ReadTool]:
    """Return the tools of some captures that began, those that never ended until their capture's end."""
    made = []
    for capture in captures:
        for span in capture.iter_kind("tool", "script"):
            if not span.is_instant and not span.args.get("start_not_recorded"):
                end_ns = capture.window[1] if span.end_ns is None else span.end_ns
                dispatch_ns = span.args.get("dispatch_ns")
                start_ns = end_ns - dispatch_ns if isinstance(dispatch_ns, int) else span.start_ns
                made.append(ReadTool(capture, span, min(start_ns, span.start_ns), end_ns))
    return made


def give_processes(spans: Iterable[Span], tools: Sequence[ReadTool]) -> list[ReadProcess]:
    """Return a file's processes by their starts, each given to its tool."""
    by_span = {
        tool.span.args["trace_span"]: tool for tool in tools if isinstance(tool.span.args.get("trace_span"), str)
    }
    known: dict[int, list[ReadProcess]] = {}
    given = []
    for span in sorted(spans, key=lambda span: span.start_ns):
        process = ReadProcess(span)
        if not process.is_foreign:
            process.evidence, process.tools = _find_tools(process, known, by_span, tools)
        for tool in process.tools:
            (tool.processes if len(process.tools) == 1 else tool.disputed).append(process)
        known.setdefault(span.args.get("pid", 0), []).append(process)
        given.append(process)
    return given


def _find_tools(
    process: ReadProcess,
    known: dict[int, list[ReadProcess]],
    by_span: dict[str, ReadTool],
    tools: Sequence[ReadTool],
) -> tuple[str | None, tuple[ReadTool, ...]]:
    named = by_span.get(process.span.args.get("parent_span", ""))
    if named is not None:
        return IDENTITY, (named,)
    parent = _find_running(known.get(process.span.args.get("parent_pid", 0), []), process.span.start_ns)
    if parent is not None and parent.tools:
        return parent.evidence, parent.tools
    at_ns = process.span.start_ns
    around = [tool for tool in tools if tool.start_ns <= at_ns <= tool.end_ns and not tool.is_in_process]
    # What a script calls stands inside it.
    found = tuple(tool for tool in around if tool.span.kind == "tool") or tuple(around)
    return (None if not found else TEMPORAL if len(found) == 1 else AMBIGUOUS), found


def _find_running(processes: Sequence[ReadProcess], at_ns: int) -> ReadProcess | None:
    """Find the process that had a number at a time."""
    place = bisect.bisect_right(processes, at_ns, key=lambda process: process.span.start_ns)
    return processes[place - 1] if place else None
