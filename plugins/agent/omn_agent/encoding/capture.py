"""What a capture says of itself: the annotations of its span, and its configurations."""

from __future__ import annotations

from typing import Any

from omn_export.perfetto.identity import compute_machine_id

from omn_agent.encoding.canvas import Canvas
from omn_agent.harness import Area
from omn_agent.recording import Capture, Configuration, Recording

SCHEMA_VERSION = 1
RECORDER_VERSION = "0.1.0"
_MOST_LABELS = 32
_LONGEST_LABEL = 100


def describe_capture(recording: Recording, capture: Capture) -> dict[str, Any]:
    """Return the annotations of the capture span's beginning; what nobody knows is None."""
    return {
        "kind": "capture",
        "schema_version": SCHEMA_VERSION,
        "recorder": "omn-agent",
        "recorder_version": RECORDER_VERSION,
        "harness": recording.harness.value,
        "categories": sorted(area.value for area in capture.areas),
        "capture_contents": capture.has_content,
        "capture_id": capture.capture_id,
        "session_id": capture.session_id,
        "native_session_id": capture.native_session_id,
        "label": capture.label,
        "machine_id": None if recording.boot is None else compute_machine_id(recording.boot),
        "clock": recording.clock.name,
        "clock_uncertainty_ns": recording.clock_uncertainty_ns,
        "started_before_capture": capture.started_before_capture or None,
        "parent_session": capture.parent_session,
        "child_session": capture.session_id if capture.parent_session is not None else None,
        **describe_configuration(capture.configuration),
        **capture.fields,
    }


def describe_stop(capture: Capture) -> dict[str, Any]:
    """Return the annotations of the capture span's end."""
    return {"stop_reason": capture.stop_reason, "peak_context_tokens": compute_peak(capture)}


def describe_configuration(configuration: Configuration) -> dict[str, Any]:
    """Return a configuration's annotations."""
    labels = dict.fromkeys(label[:_LONGEST_LABEL] for label in configuration.session_labels if label)
    return {
        "model": configuration.model,
        "provider": configuration.provider,
        "effort": configuration.effort,
        "context_window_tokens": configuration.context_window_tokens,
        "session_labels": list(labels)[:_MOST_LABELS] or None,
    }


def compute_peak(capture: Capture) -> int | None:
    """Return the largest context that was seen or that a compaction reported, None where none was."""
    seen = [tokens for _, tokens in capture.samples.context_tokens]
    seen += [row.tokens_before for row in capture.compactions if row.tokens_before is not None]
    return max(seen, default=None)


def add_configurations(canvas: Canvas) -> None:
    """Draw each change of configuration until the next, on the Tracing group, where it crosses nothing."""
    capture = canvas.capture
    changes = sorted(capture.changes, key=lambda change: change[0])
    ends = [*(ts_ns for ts_ns, _ in changes), capture.end_ns][1:]
    for (ts_ns, configuration), end_ns in zip(changes, ends, strict=True):
        track = canvas.get_lane("Tracing")
        begin = describe_configuration(configuration)
        canvas.add_span(track, "run-configuration", Area.METADATA, ts_ns, end_ns, begin)
