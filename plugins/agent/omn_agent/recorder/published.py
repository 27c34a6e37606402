"""What a recorder says of itself in the end: what it wrote, and what stands between that and the truth."""

from __future__ import annotations

from omn_agent.recorder.record import Published
from omn_core.api import render_printable


def render_published(published: Published) -> str:
    """Return the lines that a recording ends with."""
    composed = published.composed
    captures = composed.recording.captures
    children = sum(capture.parent_session is not None for capture in captures)
    responses = sum(len(capture.responses) for capture in captures)
    tools = sum(len(capture.tools) for capture in captures)
    first = (
        f"{published.path}: {len(captures) - children} sessions, {children} children, {responses} responses, "
        f"{tools} tool calls"
    )
    lost = [f"{name.replace('_', ' ')}: {count}" for name, count in composed.health.items()]
    said = [first, *lost, *(f"degraded: {text}" for text in composed.degradations)]
    return "\n".join(map(render_printable, said))
