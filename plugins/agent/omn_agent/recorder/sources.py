"""The sources of events that a harness is recorded with."""

from __future__ import annotations

import importlib

from omn_agent.harness import Harness
from omn_agent.recorder.event import EventSource

_HOOKS = "omn_agent.recorder.hook_source:HookSource"

SOURCES: dict[Harness, tuple[str, ...]] = dict.fromkeys(Harness, (_HOOKS,))
"""What makes each source, called with the harness, in the order in which they are prepared."""


def make_sources(harness: Harness) -> list[EventSource]:
    """Return a harness's sources, not yet prepared."""
    made = []
    for place in SOURCES[harness]:
        module, _, name = place.partition(":")
        made.append(getattr(importlib.import_module(module), name)(harness))
    return made
