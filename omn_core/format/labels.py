"""Keys as a person reads them: what they are called in place of their numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

ROW_NAMES = frozenset({"attr", "label"})
"""What names a row of an answer that an attribute divides; the rest are its figures."""

Labelled = tuple[Mapping[str, Any], Mapping[str, str]]
"""A key, and what its parts are called where that is known."""


def render_labels(keys: Sequence[Labelled]) -> list[dict[str, Any]]:
    """Return each key with its labels in place of its values.

    The value stands behind a label that another value of the same name shows too, so that no two keys read alike.
    """
    values: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for key, labels in keys:
        for name, value in key.items():
            values[name, labels.get(name, str(value))].add(value)
    return [
        {
            name: _render_part(value, labels.get(name), is_shared=len(values[name, labels.get(name, str(value))]) > 1)
            for name, value in key.items()
        }
        for key, labels in keys
    ]


def render_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the key `attr` of each row of an answer that an attribute divides, as a person reads it."""
    return render_labels([({"attr": row["attr"]}, {"attr": row["label"]} if "label" in row else {}) for row in rows])


def _render_part(value: Any, label: str | None, *, is_shared: bool) -> Any:
    if label is None:
        return value
    return f"{label} ({value})" if is_shared else label
