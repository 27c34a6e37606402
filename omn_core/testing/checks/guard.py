"""The one place where the kit runs a plugin's code: whatever it raises becomes words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call_guarded(function: Callable[..., Any], *arguments: Any) -> tuple[Any, str | None]:
    """Call a plugin's code. Return what it returned and None, or None and what it raised (`KeyError: 'x'`)."""
    try:
        return function(*arguments), None
    except Exception as error:  # a guarded plugin call
        return None, f"{type(error).__name__}: {error}"
