"""Annotations of events: any plain value as the typed message that Perfetto has for it, within bounds.

Perfetto has no encoding for null, for an empty dictionary or list, or for an integer beyond 64 bits. What cannot be
encoded is left out: of a dictionary the entry, of a list everything from there on, so that an index never names another
value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LEAST_INT64, _LEAST_BEYOND_INT64, _LEAST_BEYOND_UINT64 = -(1 << 63), 1 << 63, 1 << 64


@attrs.frozen
class Bounds:
    """What one value may take: scalars, levels of containers (itself the first), UTF-16 units of keys and text.

    `flag` names the boolean annotation that is set beside a value which was cut short, None where none is.
    """

    values: int = 128
    levels: int = 8
    units: int = 65_536
    flag: str | None = None


UNBOUNDED = Bounds(1 << 30, 64, 1 << 30)
"""For what a recorder made itself."""


def compute_units(text: str) -> int:
    """Return the UTF-16 code units of a text: its length as JavaScript counts it."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def cut_text(text: str, units: int) -> str:
    """Return the longest beginning of a text within so many UTF-16 units, surrogate pairs whole."""
    if compute_units(text) <= units:
        return text
    end = 0
    for character in text:
        units -= 2 if character > "\uffff" else 1
        if units < 0:
            break
        end += 1
    return text[:end]


def clean_text(text: str) -> str:
    """Return text that UTF-8 can hold: each half of a surrogate pair that stands alone as U+FFFD."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def fill_annotation(annotation: Any, value: Any, bounds: Bounds = UNBOUNDED) -> tuple[bool, bool]:
    """Write a value into a DebugAnnotation.

    Returns (whether anything was written, whether all of it was). Where nothing was, the annotation is to be left out.
    """
    filling = _Filling(bounds)
    return filling.fill(annotation, value, 1), filling.is_whole


class _Filling:
    """One value on its way: what its bounds have left."""

    def __init__(self, bounds: Bounds) -> None:
        self.values, self.units, self.levels = bounds.values, bounds.units, bounds.levels
        self.is_whole = True

    def fill(self, annotation: Any, value: Any, level: int) -> bool:
        """Write a value, and return whether anything was written."""
        if isinstance(value, Mapping):
            written = level <= self.levels and self._fill_entries(annotation.dict_entries, value.items(), level)
        elif isinstance(value, list | tuple):
            written = level <= self.levels and self._fill_values(annotation.array_values, value, level)
        else:
            written = self.values > 0 and self._fill_scalar(annotation, value)
            self.values -= written
        self.is_whole = self.is_whole and written
        return written

    def _fill_entries(self, entries: Any, items: Iterable[tuple[Any, Any]], level: int) -> bool:
        for key, value in items:
            name = clean_text(str(key))
            if self.values <= 0 or compute_units(name) > self.units:
                self.is_whole = False
                break
            before = self.units
            self.units -= compute_units(name)
            entry = entries.add()
            entry.name = name
            if not self.fill(entry, value, level + 1):
                del entries[-1]
                self.units = before
        return len(entries) > 0

    def _fill_values(self, parts: Any, values: Iterable[Any], level: int) -> bool:
        for value in values:
            if not self.fill(parts.add(), value, level + 1):
                del parts[-1]
                break
        return len(parts) > 0

    def _fill_scalar(self, annotation: Any, value: Any) -> bool:
        if isinstance(value, bool):
            annotation.bool_value = value
        elif isinstance(value, int) and _LEAST_INT64 <= value < _LEAST_BEYOND_INT64:
            annotation.int_value = value
        elif isinstance(value, int) and 0 <= value < _LEAST_BEYOND_UINT64:
            annotation.uint_value = value
        elif isinstance(value, float):
            annotation.double_value = value
        elif isinstance(value, str):
            kept = cut_text(value, self.units)
            self.is_whole = self.is_whole and kept == value
            self.units -= compute_units(kept)
            annotation.string_value = clean_text(kept)
        else:
            return False
        return True
