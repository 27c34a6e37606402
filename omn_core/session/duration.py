"""Durations as people write them, to and from integer nanoseconds."""

from __future__ import annotations

import re

UNITS = {"h": 3_600_000_000_000, "m": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds of each unit, largest first."""

_FORM = re.compile(r"(\d{1,15})(?:\.(\d{1,12}))?\s*(h|m|s|ms|us|µs|ns)?", re.ASCII)
_LONGEST_NS = 10 * 365 * 24 * UNITS["h"]


def parse_duration(text: str | int | float) -> int:
    """Return nanoseconds of `100ms`, `1.5s`, `2m` or a bare number of seconds. Raises ValueError in one clause."""
    if isinstance(text, bool):
        raise ValueError(f"{text!r} is no duration")
    match = _FORM.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration such as 100ms, 1.5s or 2m")
    fraction = match[2] or ""
    scaled = int(match[1] + fraction) * UNITS[(match[3] or "s").replace("µ", "u")]
    parts: int = 10 ** len(fraction)
    exact, finer = divmod(scaled, parts)
    if finer:
        raise ValueError(f"{text!r} is finer than a nanosecond")
    if not 0 < exact <= _LONGEST_NS:
        raise ValueError(f"{text!r} is not between a nanosecond and ten years")
    return exact


def render_duration(duration_ns: int) -> str:
    """Return the shortest exact spelling that `parse_duration` reads back."""
    unit, scale = next((unit, scale) for unit, scale in UNITS.items() if duration_ns % scale == 0)
    return f"{duration_ns // scale}{unit}"
