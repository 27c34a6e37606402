"""A capture's counters: absolute values, and at its end the zeros that bound them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from omn_export.perfetto.tracks import CounterUnit

from omn_agent.encoding.canvas import Canvas
from omn_agent.harness import Area
from omn_agent.recording import Capture, Compaction, Response, Tool, Usage

_SHARED_AXIS = "llm.context.window"
_COMPOSITION_AXIS = "llm.context.tokens"
_TOKENS = "tokens"

Points = Iterable[tuple[int, int]]


def add_counters(canvas: Canvas, overflows: int) -> None:
    """Draw every counter that has a sample. One without any has no track."""
    capture = canvas.capture
    if Area.LLM in capture.areas:
        _add_tokens(canvas, "Input tokens", lambda usage: usage.input_tokens)
        _add_tokens(canvas, "Output tokens", lambda usage: usage.output_tokens)
        _add(canvas, compute_context(capture), "Context size", unit_name=_TOKENS, share_key=_SHARED_AXIS)
        _add(canvas, compute_window(capture), "Context window", unit_name=_TOKENS, share_key=_SHARED_AXIS)
        _add_composition(canvas)
    samples = capture.samples
    if Area.RUNTIME in capture.areas:
        _add(canvas, samples.resident_bytes, "Resident memory", "Runtime", CounterUnit.SIZE_BYTES)
        _add(canvas, samples.heap_bytes, "JS heap", "Runtime", CounterUnit.SIZE_BYTES)
        _add(canvas, samples.cpu_us, "CPU time (interval)", "Runtime", unit_name="us")
    # Final diagnostics stand one nanosecond before the zeros of the end, which would hide them.
    last_ns = capture.start_ns if capture.end_ns is None else max(capture.end_ns - 1, capture.start_ns)
    _add(canvas, samples.dropped_events, "Dropped events", "Tracing", CounterUnit.COUNT)
    _add(canvas, samples.queue_depth, "Queue depth", "Tracing", CounterUnit.COUNT)
    lost = [(last_ns, overflows)] if overflows else []
    _add(canvas, lost, "Lane overflows", "Tracing", CounterUnit.COUNT)


def compute_context(capture: Capture) -> list[tuple[int, int]]:
    """Return a capture's context sizes: its samples, and after each successful compaction what is known then.

    Zero after one that did not say what it left ends the plateau of before; the next sample ends the zero.
    """
    points = list(capture.samples.context_tokens)
    if not points:
        return []
    for row in capture.compactions:
        is_done = row.end_ns is not None and row.outcome in (None, "success") and row.resets_context
        if is_done and row.end_ns is not None:
            points.append((row.end_ns, row.tokens_after or 0))
    return sorted(points, key=lambda point: point[0])


def compute_window(capture: Capture) -> list[tuple[int, int]]:
    """Return the model's limits over a capture, 0 from where the limit is no longer known."""
    first = capture.configuration.context_window_tokens
    points = [] if first is None else [(capture.start_ns, first)]
    for ts_ns, configuration in sorted(capture.changes, key=lambda change: change[0]):
        limit = configuration.context_window_tokens
        if limit is not None or points:
            points.append((ts_ns, limit or 0))
    return points


def compute_usages(capture: Capture) -> list[tuple[int, Usage]]:
    """Return what was reported, by time: of responses, of compactions, and of tools, nested calls included once."""
    rows: list[Response | Compaction | Tool] = [*capture.responses, *capture.compactions, *capture.tools]
    found = [(row.end_ns, row.usage) for row in rows if row.end_ns is not None]
    found += capture.other_usages
    return sorted(found, key=lambda pair: pair[0])


def _add_tokens(canvas: Canvas, name: str, read: Callable[[Usage], int | None]) -> None:
    """Draw a running total from 0; a field that is missing or no count makes no sample."""
    total = 0
    points = []
    for ts_ns, usage in compute_usages(canvas.capture):
        tokens = read(usage)
        if tokens is not None and tokens >= 0:
            total += tokens
            points.append((ts_ns, total))
    if points:
        _add(canvas, [(canvas.capture.start_ns, 0), *points], name, unit_name=_TOKENS)


def _add_composition(canvas: Canvas) -> None:
    """Draw each category of a context's composition; one that vanished goes to 0."""
    snapshots = sorted(canvas.capture.snapshots, key=lambda pair: pair[0])
    seen: dict[str, list[tuple[int, int]]] = {}
    for ts_ns, snapshot in snapshots:
        for category in {**seen, **snapshot.categories}:
            points = seen.setdefault(category, [])
            tokens = snapshot.categories.get(category, 0)
            if not points or points[-1][1] != tokens:
                points.append((ts_ns, tokens))
    for category, points in seen.items():
        _add(canvas, points, category.capitalize(), "Context", unit_name=_TOKENS, share_key=_COMPOSITION_AXIS)


def _add(
    canvas: Canvas,
    points: Points,
    name: str,
    group: str | None = None,
    unit: CounterUnit | None = None,
    *,
    unit_name: str | None = None,
    share_key: str | None = None,
) -> None:
    points = list(points)
    if not points:
        return
    track = canvas.get_counter(name, group, unit, unit_name, share_key)
    for ts_ns, value in points:
        canvas.sequence.count(track, ts_ns, value)
    if canvas.capture.end_ns is not None:
        canvas.sequence.count(track, canvas.capture.end_ns, 0)
