"""Rows of counters that are told apart by their names, and have no sum."""

from __future__ import annotations

from omn_core.api import RequestError, ResolvedRequest


def check_divided(resolved: ResolvedRequest) -> None:
    """Refuse a request whose figure would add different counters up. Raises RequestError."""
    is_divided = "counter" in (*resolved.keys, *resolved.filter_fields)
    if is_divided or all(emit.name == "raw" or emit.attribute == "counter" for emit in resolved.emits):
        return
    raise RequestError(
        f"the counters of {resolved.entry.id} count different things, and their sum counts nothing",
        "add --keys counter, or pick some with --filter",
    )
