"""What happened: the figures of a session with its subagents. None is what was not recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from omn_agent.reading.activity import compute_activity, compute_peak
from omn_agent.reading.captures import ReadCapture
from omn_agent.reading.groups import Group
from omn_agent.reading.spans import Span
from omn_agent.reading.tools import shorten

_OPERATIONS = ("prompt", "request", "response", "tool", "script", "model call", "compaction")


def compute_group(group: Group, has_one_clock: bool = True) -> dict[str, Any]:
    """Return a group's row. Without one clock nothing that combines times of several captures is said."""
    members = group.members
    start_ns = min(member.window[0] for member in members)
    end_ns = max(member.window[1] for member in members)
    timed = has_one_clock or len(members) == 1
    responses = [span for member in members for span in member.iter_kind("response")]
    tools = [span for member in members for span in member.iter_kind("tool")]
    context = _compute_context(members)
    activity = compute_activity(members) if timed else None
    window_ns = end_ns - start_ns
    return {
        "session": group.head.session_id,
        "label": group.head.get_text("label"),
        "session_labels": _list_labels(group.head),
        "file": group.head.file,
        "captures": len(members),
        "start_ns": start_ns,
        "window_ns": window_ns if timed else None,
        "first_prompt": find_prompt(group.head),
        "harnesses": _list_values(members, "harness"),
        "providers": _list_values(members, "provider"),
        "models": _list_values(members, "model"),
        "efforts": _list_values(members, "effort"),
        "input_tokens": _add_known(compute_tokens(member, "input") for member in members),
        "output_tokens": _add_known(compute_tokens(member, "output") for member in members),
        "cache_read_tokens": _add_known(compute_cached(member, "cache_read") for member in members),
        "cache_write_tokens": _add_known(compute_cached(member, "cache_write") for member in members),
        "responses_with_usage": sum("input_tokens" in span.args or "output_tokens" in span.args for span in responses),
        "output_tokens_per_second": compute_rate(responses),
        "context_tokens": context[0],
        "context_share": context[1],
        "busy_share": activity.busy_ns / window_ns if activity is not None and window_ns else None,
        "activity": None if activity is None else attrs.asdict(activity),
        "peak_concurrent_tools": compute_peak(tools) if timed else None,
        "prompts": sum(1 for member in members for _ in member.iter_kind("prompt")),
        "turns": _count_turns(members),
        "responses": len(responses),
        "tools": len(tools),
        "scripts": sum(1 for member in members for _ in member.iter_kind("script")),
        "compactions": sum(1 for member in members for _ in member.iter_kind("compaction")),
        "incomplete": sum(span.is_incomplete for member in members for span in member.iter_kind(*_OPERATIONS)),
    }


def compute_rate(responses: Iterable[Span]) -> float | None:
    """Return output tokens for each second of the responses that have both tokens and a measured length."""
    tokens, length_ns = 0, 0
    for span in responses:
        output, interval = span.args.get("output_tokens"), span.interval
        if isinstance(output, int) and interval is not None and interval[1] > interval[0]:
            tokens += output
            length_ns += interval[1] - interval[0]
    return tokens / (length_ns / 1e9) if length_ns else None


def list_limits(capture: ReadCapture) -> set[int]:
    """Return the context limits that a capture had: its own, of its configurations, of its counter."""
    said = [capture.args.get("context_window_tokens")]
    said += [span.args.get("context_window_tokens") for span in capture.iter_kind("configuration")]
    said += [int(value) for _, value in capture.counters.get("window", [])]
    return {limit for limit in said if isinstance(limit, int) and limit > 0}


def compute_context_peak(capture: ReadCapture) -> int | None:
    """Return a capture's largest context, None where none was sampled."""
    said = capture.args.get("peak_context_tokens")
    seen = [int(value) for _, value in capture.counters.get("context", [])]
    seen += [said] if isinstance(said, int) else []
    return max(seen, default=None)


def _compute_context(members: Sequence[ReadCapture]) -> tuple[int | None, float | None]:
    """Return the largest context of any agent, and its share of that agent's limit; no share where that changed."""
    peaks = [(peak, member) for member in members if (peak := compute_context_peak(member)) is not None]
    if not peaks:
        return None, None
    peak, member = max(peaks, key=lambda pair: pair[0])
    limits = list_limits(member)
    return peak, peak / limits.pop() if len(limits) == 1 else None


def compute_tokens(capture: ReadCapture, name: str) -> int | None:
    """Return a counter's largest value: it ends at zero. Without a counter, what the spans report."""
    points = capture.counters.get(name)
    if points:
        return int(max(value for _, value in points))
    return compute_cached(capture, name)


def compute_cached(capture: ReadCapture, name: str) -> int | None:
    """Return the sum of what spans report of one kind of tokens, None where none does.

    What was read from a cache or written into it is inside the input of some providers and beside that of others: it is
    added to nothing.
    """
    spans = capture.iter_kind("response", "compaction", "tool", "script")
    return _add_known(_get_count(span.args.get(f"{name}_tokens")) for span in spans)


def find_prompt(capture: ReadCapture) -> str | None:
    """Return the beginning of the first task that was given, None where its text was not recorded."""
    texts = (span.args.get("text") for span in capture.iter_kind("prompt"))
    return next((shorten(text) for text in texts if isinstance(text, str)), None)


def _list_labels(capture: ReadCapture) -> list[str] | None:
    """Return the labels of a capture and of its configurations, each once and as it was given; None where none is."""
    sources = [capture.args, *(span.args for span in capture.iter_kind("configuration"))]
    labels = [label for source in sources for label in _get_list(source.get("session_labels"))]
    return list(dict.fromkeys(label for label in labels if isinstance(label, str))) or None


def _get_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _get_count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _add_known(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _count_turns(members: Iterable[ReadCapture]) -> int | None:
    return sum(1 for member in members for _ in member.iter_kind("turn")) or None


def _list_values(members: Iterable[ReadCapture], name: str) -> list[str]:
    """Return every value of a field that captures and their changes of configuration have, first seen first."""
    found: dict[str, None] = {}
    for member in members:
        values = [member.harness] if name == "harness" else [member.args.get(name)]
        values += [span.args.get(name) for span in member.iter_kind("configuration")]
        if name in ("model", "provider"):
            values += [span.args.get(name) for span in member.iter_kind("response")]
        found |= dict.fromkeys(value for value in values if isinstance(value, str))
    return list(found)
