"""The sources of events that a harness is recorded with."""

from __future__ import annotations

import importlib

from omn_agent.harness import Harness
from omn_agent.recorder.event import EventSource
from omn_core.api import RequestError

_HOOKS = "omn_agent.recorder.hook_source:HookSource"

SOURCES: dict[Harness, tuple[str, ...]] = {
    **dict.fromkeys(Harness, (_HOOKS,)),
    Harness.CLAUDE: (_HOOKS, "omn_agent.recorder.process_source:ProcessSource"),
    Harness.PI: ("omn_agent.recorder.extension_source:ExtensionSource",),
}
"""What makes each source, called with the harness, in the order in which they are prepared."""

TELEMETRY: dict[Harness, tuple[str, ...]] = {Harness.CLAUDE: ("omn_agent.recorder.telemetry_source:TelemetrySource",)}
"""What makes the source of a harness's own telemetry, for those that are asked for it."""


def make_sources(harness: Harness, has_telemetry: bool) -> list[EventSource]:
    """Return a harness's sources, not yet prepared. Raises RequestError where it has no telemetry that is received."""
    if has_telemetry and harness not in TELEMETRY:
        raise RequestError(f"no telemetry of {harness.value} is received", "leave --telemetry out")
    made = []
    for place in (*SOURCES[harness], *(TELEMETRY[harness] if has_telemetry else ())):
        module, _, name = place.partition(":")
        made.append(getattr(importlib.import_module(module), name)(harness))
    return made
