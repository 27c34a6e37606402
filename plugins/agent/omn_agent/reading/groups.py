"""Sessions and their subagents: which capture is whose child."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from omn_agent.reading.captures import ReadCapture

_INPUTS = ("prompt-input", "prompt")


@attrs.define
class Group:
    """A session's capture with those of its subagents, at any depth."""

    head: ReadCapture
    members: list[ReadCapture] = attrs.field(factory=list)


@attrs.define
class _Index:
    """Who has which id, who launched which session, and whose launches sent which flow of a file."""

    named: dict[str, list[ReadCapture]] = attrs.field(factory=dict)
    launched: dict[str, list[ReadCapture]] = attrs.field(factory=dict)
    sent: dict[tuple[str, int], list[ReadCapture]] = attrs.field(factory=dict)

    def add(self, capture: ReadCapture) -> None:
        """Take in a capture."""
        for name in {capture.session_id, capture.get_text("native_session_id")} - {None}:
            self.named.setdefault(str(name), []).append(capture)
        for child in _list_launched(capture):
            self.launched.setdefault(child, []).append(capture)
        for flow in _list_sent(capture):
            self.sent.setdefault((capture.file, flow), []).append(capture)


def make_groups(captures: Sequence[ReadCapture]) -> list[Group]:
    """Return a group for each capture that is nobody's child.

    A child whose parent is not there, is one of several that could be, or is its own descendant has a group of its own.
    """
    index = _Index()
    for capture in captures:
        index.add(capture)
    parents = {capture: _find_parent(capture, index) for capture in captures}
    groups: dict[ReadCapture, Group] = {}
    for capture in captures:
        head = _find_head(capture, parents)
        groups.setdefault(head, Group(head)).members.append(capture)
    return list(groups.values())


def _find_head(capture: ReadCapture, parents: dict[ReadCapture, ReadCapture | None]) -> ReadCapture:
    passed = {capture}
    at = capture
    while (parent := parents[at]) is not None:
        if parent in passed:  # a circle: nobody in it is the first
            return capture
        passed.add(parent)
        at = parent
    return at


def _find_parent(capture: ReadCapture, index: _Index) -> ReadCapture | None:
    """Return the one capture that this one is a child of: by the ids it says, that a launch returned, or by a flow.

    A flow leads from a launch to the first input of its child, and is of one file.
    """
    named = capture.get_text("parent_session")
    if named is not None:
        found = index.named.get(named, [])
    else:
        found = [*index.launched.get(capture.session_id or "", [])]
        for flow in _list_taken(capture):
            found += index.sent.get((capture.file, flow), [])
    found = [other for other in dict.fromkeys(found) if other is not capture]
    if len(found) > 1:  # a session that was recorded more than once: the one that ran when the child began
        start_ns = capture.span.start_ns
        found = [other for other in found if other.window[0] <= start_ns <= other.window[1]]
    return found[0] if len(found) == 1 else None


def _list_launched(capture: ReadCapture) -> set[str]:
    """Return the sessions that a capture's tools, or in older files its workflow's spans, launched."""
    launched = (span.args.get("child_session") for span in capture.spans)
    return {child for child in launched if isinstance(child, str)}


def _list_taken(capture: ReadCapture) -> set[int]:
    """Return the flows that reach a capture's inputs."""
    return {flow for span in capture.spans if span.name in _INPUTS for flow in span.flows}


def _list_sent(capture: ReadCapture) -> set[int]:
    """Return the flows of a capture's launches."""
    launches = (span for span in capture.iter_kind("tool", "script") if span.args.get("delegation") is True)
    return {flow for span in launches for flow in span.flows}
