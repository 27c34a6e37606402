"""Sessions and their subagents: which capture is whose child."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from omn_agent.reading.captures import ReadCapture

_INPUTS = ("prompt-input", "prompt")


@attrs.define
class Group:
    """A session's capture with those of its subagents, at any depth."""

    head: ReadCapture
    members: list[ReadCapture] = attrs.field(factory=list)


def make_groups(captures: Sequence[ReadCapture]) -> list[Group]:
    """Return a group for each capture that is nobody's child.

    A child whose parent is not there, is one of several that could be, or is its own descendant has a group of its own.
    """
    parents = {capture: _find_parent(capture, captures) for capture in captures}
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


def _find_parent(capture: ReadCapture, captures: Iterable[ReadCapture]) -> ReadCapture | None:
    """Return the one capture that this one is a child of: by the ids it says, that a launch returned, or by a flow.

    A flow leads from a launch to the first input of its child, and is of one file.
    """
    named = capture.get_text("parent_session")
    others = [other for other in captures if other is not capture]
    if named is not None:
        found = [other for other in others if named in (other.session_id, other.get_text("native_session_id"))]
    else:
        session, taken = capture.session_id, _list_taken(capture)
        found = [
            other
            for other in others
            if (session is not None and session in _list_launched(other))
            or (other.file == capture.file and taken & _list_sent(other))
        ]
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
