"""The coding agents whose sessions are known, and the categories that their events carry."""

from __future__ import annotations

import enum


class Harness(enum.Enum):
    """A coding agent. The value is its constant name: of its categories, its process and its main thread."""

    CLAUDE = "claude"
    CODEX = "codex"
    PI = "pi"
    MUSE = "muse"


class Area(enum.Enum):
    """What an event is about: the switch that turns it on, and Pi's category for it."""

    METADATA = "metadata"
    SESSION = "session"
    LLM = "llm"
    TOOLS = "tools"
    WORKFLOW = "workflow"
    RUNTIME = "runtime"


ALL_AREAS = frozenset(Area)


def get_category(harness: Harness, area: Area) -> str:
    """Return an event's category: Pi divides them by area, the others into metadata and activity."""
    if harness is Harness.PI:
        return f"pi.{area.value}"
    return f"{harness.value}.{'metadata' if area is Area.METADATA else 'activity'}"


def get_prompt_category(harness: Harness) -> str:
    """Return the category that a prompt carries beside its own where its text stands in the recording."""
    return f"{harness.value}.prompt-data"
