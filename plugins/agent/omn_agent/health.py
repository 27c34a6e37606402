"""What a recording says of its own losses, so that who reads it need not know every recorder's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NO_LOSSES = frozenset({"import_lines", "duplicate_records"})
"""Figures of an import or a recording that tell of nothing that is missing."""

OF_SESSIONS = ("missing_journal_records", "unavailable_child_sessions", "cut_nested_calls")
"""Losses that stand in the capture of the session that they are of."""


def describe_health(counts: Mapping[str, int], degradations: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the first capture's span says of a whole recording: each figure, and what of them are losses.

    `losses` holds those that are not 0, by their reasons; `degradations` what was known less well than it might have
    been, a sentence each. Neither is there where there is none.
    """
    losses = {name: count for name, count in counts.items() if count and name not in _NO_LOSSES}
    told: dict[str, Any] = dict(counts)
    if losses:
        told["losses"] = losses
    if degradations:
        told["degradations"] = list(degradations)
    return told
