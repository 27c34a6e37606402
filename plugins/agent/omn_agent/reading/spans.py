"""Events joined into spans, and what each of them is."""

from __future__ import annotations

from typing import Any

import attrs

from omn_agent.reading.events import BEGIN, END, Event, FileEvents, Track

_NAMES = {
    "turn": "turn",
    "prompt": "prompt",
    "attempt": "attempt",
    "request": "request",
    "provider-request": "request",
    "response": "response",
    "assistant-message": "response",
    "compact": "compaction",
    "run-configuration": "configuration",
    "tool-result": "tool",
    "tracing": "capture",
    "tracing-start": "capture",
    "tool-preflight": "preflight",
}
_KINDS = {
    "turn": "turn",
    "provider-request": "request",
    "assistant-message": "response",
    "tool-execution": "tool",
    "script": "script",
    "model-call": "model call",
    "capture": "capture",
    "process": "process",
    "machine": "machine",
}


@attrs.define
class Span:
    """Something that took time, or an instant. `end_ns` None: nobody wrote its end."""

    kind: str
    name: str
    track: int
    start_ns: int
    end_ns: int | None
    args: dict[str, Any]
    categories: tuple[str, ...]
    flows: tuple[int, ...]
    is_instant: bool = False

    @property
    def is_incomplete(self) -> bool:
        """Whether it was cut off."""
        return self.end_ns is None or self.args.get("incomplete") is True

    @property
    def interval(self) -> tuple[int, int] | None:
        """Its measured interval: that of a finished span, or of an older summary instant with its duration."""
        if self.is_incomplete or self.end_ns is None:
            return None
        if not self.is_instant:
            return self.start_ns, self.end_ns
        duration = self.args.get("duration_ns")
        if (
            isinstance(duration, int)
            and duration >= 0
            and self.kind == "response"
            and not self.args.get("start_not_recorded")
        ):
            return self.start_ns - duration, self.start_ns
        return None


def join_spans(found: FileEvents) -> list[Span]:
    """Return a file's spans by their starts. An end closes the innermost open slice, or the innermost of its name."""
    spans: list[Span] = []
    stacks: dict[int, list[Span]] = {}
    for event in found.events:
        stack = stacks.setdefault(event.track, [])
        if event.kind == END:
            span = _close(stack, event)
            if span is None:
                found.health.unfinished_ends += 1
            continue
        span = _make_span(event, found.tracks.get(event.track))
        spans.append(span)
        if event.kind == BEGIN:
            stack.append(span)
    return spans


def _close(stack: list[Span], event: Event) -> Span | None:
    for place in range(len(stack) - 1, -1, -1):
        if event.name is None or stack[place].name == event.name:
            span = stack.pop(place)
            span.end_ns = event.ts_ns
            span.args |= event.args
            span.flows += event.flows
            return span
    return None


def _make_span(event: Event, track: Track | None) -> Span:
    is_instant = event.kind != BEGIN
    name = event.name or ""
    end_ns = event.ts_ns if is_instant else None
    kind = _find_kind(name, event.args, track)
    return Span(kind, name, event.track, event.ts_ns, end_ns, event.args, event.categories, event.flows, is_instant)


def _find_kind(name: str, args: dict[str, Any], track: Track | None) -> str:
    """Return what a span is: what it says, else by its name, else by its track; older files say less."""
    said = args.get("kind")
    if isinstance(said, str) and said in _KINDS:
        return _KINDS[said]
    if name.startswith("profile ("):
        return "capture"
    if name in _NAMES:
        return _NAMES[name]
    if track is not None and (track.name == "Tools" or track.name.startswith("tools.lane.")):
        return "tool"
    return "other"
