"""The main thread: the capture's span, and below it prompts, attempts and turns, each inside the one above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from omn_export.perfetto.annotations import compute_units

from omn_agent.content import BOUNDS, describe_input
from omn_agent.encoding.canvas import Canvas
from omn_agent.encoding.capture import describe_capture, describe_stop
from omn_agent.flows import compute_delegation_flow, compute_flow
from omn_agent.harness import Area, get_category, get_prompt_category
from omn_agent.recording import Prompt, Recording, Tool


@attrs.frozen
class _Node:
    """A span with those inside it."""

    name: str
    start_ns: int
    end_ns: int | None
    begin: Mapping[str, Any]
    inner: Sequence[_Node] = ()
    flows: tuple[int, ...] = ()
    categories: tuple[str, ...] = ()


def add_thread(canvas: Canvas, recording: Recording, is_linked: bool) -> None:
    """Draw a capture's main thread. `is_linked` says that a launch in this recording leads to its first prompt."""
    capture = canvas.capture
    track = canvas.get_main()
    begin = {**describe_capture(recording, capture), "capture_track": canvas.get_root()}
    categories = [get_category(canvas.harness, Area.METADATA)]
    canvas.sequence.begin(
        track,
        capture.start_ns,
        f"profile ({canvas.index})",
        categories=categories,
        annotations=begin,
    )
    if Area.SESSION in capture.areas:
        nodes = []
        for index, prompt in enumerate(sorted(capture.prompts, key=lambda prompt: prompt.start_ns)):
            flow = compute_flow(capture.capture_id, "prompt", index)
            links = [compute_delegation_flow(capture.session_id)] if is_linked and index == 0 else []
            source = {"source": prompt.source}
            canvas.add_instant(track, "prompt-input", Area.SESSION, prompt.start_ns, source, [flow, *links])
            nodes.append(_make_prompt(canvas, prompt, flow))
        _add_nodes(canvas, track, nodes, capture.start_ns)
    for tool in capture.tools:
        _add_preflight(canvas, track, tool)
    if capture.end_ns is not None:
        canvas.sequence.end(track, capture.end_ns, annotations=describe_stop(capture))


def compute_preflight_flow(capture_id: str, call_id: str) -> int:
    """Return the flow from a tool's announcement to its execution."""
    return compute_flow(capture_id, "preflight", call_id)


def compute_script_flow(capture_id: str, parent_call_id: str, call_id: str) -> int:
    """Return the flow from a script to one of its calls."""
    return compute_flow(capture_id, "script", parent_call_id, call_id)


def _make_prompt(canvas: Canvas, prompt: Prompt, flow: int) -> _Node:
    has_text = prompt.text is not None and canvas.capture.has_content
    length = prompt.length if prompt.text is None else compute_units(prompt.text)
    begin = {
        "length": length,
        "text": prompt.text if has_text else None,
        "started_before_capture": prompt.started_before_capture or None,
    }
    attempts = [
        _Node(
            "attempt",
            attempt.start_ns,
            attempt.end_ns,
            {},
            [
                _Node("turn", turn.start_ns, turn.end_ns, {"kind": "turn", "index": turn.index})
                for turn in attempt.turns
            ],
        )
        for attempt in prompt.attempts
    ]
    categories = (get_prompt_category(canvas.harness),) if has_text else ()
    return _Node("prompt", prompt.start_ns, prompt.end_ns, begin, attempts, (flow,), categories)


def _add_nodes(canvas: Canvas, track: int, nodes: Iterable[_Node], low_ns: int, high_ns: int | None = None) -> None:
    """Draw spans one after another, each within its surroundings: on one track spans that cross close one another."""
    listed = list(nodes)
    for index, node in enumerate(listed):
        start_ns = max(node.start_ns, low_ns)
        following_ns = listed[index + 1].start_ns if index + 1 < len(listed) else high_ns
        end_ns = node.end_ns if node.end_ns is not None else following_ns
        if end_ns is not None:
            end_ns = max(end_ns if high_ns is None else min(end_ns, high_ns), start_ns)
        is_open = node.end_ns is None
        canvas.sequence.begin(
            track,
            start_ns,
            node.name,
            categories=[get_category(canvas.harness, Area.SESSION), *node.categories],
            annotations=node.begin,
            flows=node.flows,
            bounds=BOUNDS,
        )
        limit_ns = end_ns if end_ns is not None else canvas.capture.end_ns
        _add_nodes(canvas, track, node.inner, start_ns, limit_ns)
        if limit_ns is not None:
            canvas.sequence.end(track, limit_ns, annotations={"incomplete": True} if is_open else None)
        low_ns = limit_ns if limit_ns is not None else start_ns


def _add_preflight(canvas: Canvas, track: int, tool: Tool) -> None:
    """Draw a tool's announcement, one nanosecond before its start: it was reconstructed, and measures no wait."""
    capture = canvas.capture
    if tool.preflight_ns is None or Area.TOOLS not in capture.areas:
        return
    flows = [compute_preflight_flow(capture.capture_id, tool.call_id)] if tool.start_ns is not None else []
    if tool.parent_call_id is not None:
        flows.append(compute_script_flow(capture.capture_id, tool.parent_call_id, tool.call_id))
    annotations: dict[str, Any] = {"name": tool.name, "call_id": tool.call_id}
    if capture.has_content and tool.has_args:
        annotations |= describe_input(tool.args)
        if tool.start_ns is None:
            annotations["args"] = tool.args
    ts_ns = tool.preflight_ns if tool.start_ns is None else tool.start_ns - 1
    canvas.add_instant(track, "tool-preflight", Area.TOOLS, ts_ns, annotations, flows)
