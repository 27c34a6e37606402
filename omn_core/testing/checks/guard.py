"""The one place where the kit runs a plugin's code: whatever it raises becomes words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omn_core.errors import PLUGIN_FAULTS


def call_guarded(function: Callable[..., Any], *arguments: Any) -> tuple[Any, str | None]:
    """Call a plugin's code. Return what it returned and None, or None and what it raised (`KeyError: 'x'`)."""
    try:
        return function(*arguments), None
    except PLUGIN_FAULTS as error:  # a guarded plugin call
        return None, f"{type(error).__name__}: {error}"
