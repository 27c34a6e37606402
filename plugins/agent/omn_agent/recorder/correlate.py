"""Events brought together with what session files said, source by source."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings

APPLIERS: dict[str, str] = {
    "hook": "omn_agent.recorder.hook_events:apply_events",
    "extension": "omn_agent.recorder.extension_events:apply_events",
    "process": "omn_agent.recorder.process_events:apply_events",
    "telemetry": "omn_agent.recorder.telemetry_events:apply_events",
}
"""Who knows what the events of a source mean, by the first part of their kind: `(findings, events) -> None`.

They are asked in this order, each with all of its events by their stamps.
"""


def apply_events(findings: Findings, events: Sequence[HarnessEvent]) -> None:
    """Let each source's events say what they add to the sessions; those of no known source are counted."""
    by_source: dict[str, list[HarnessEvent]] = {}
    for event in sorted(events, key=lambda event: event.stamp_ns):
        by_source.setdefault(event.kind.partition(".")[0], []).append(event)
    for source, place in APPLIERS.items():
        found = by_source.pop(source, [])
        if found:
            module, _, name = place.partition(":")
            getattr(importlib.import_module(module), name)(findings, found)
    findings.count("unknown_events", sum(map(len, by_source.values())))
