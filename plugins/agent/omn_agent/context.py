"""What a context was made of: composition snapshots, estimated item by item and never scaled to what was reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

CATEGORIES = (
    "system",
    "rules",
    "skills",
    "tools",
    "environment",
    "prompts",
    "assistant",
    "results",
    "summaries",
    "overhead",
    "messages",
    "unattributed",
)
"""Every part of a context belongs to one of these."""

VERSION = 1
MOST_CHANGES = 64


@attrs.frozen
class ContextItem:
    """One part of a context."""

    id: str
    category: str
    tokens: int


@attrs.frozen
class ContextChange:
    """What an item did since the snapshot before."""

    item: ContextItem
    delta_tokens: int
    change: str


@attrs.frozen
class ContextSnapshot:
    """A context's composition at one moment. `stage` says where it was taken, `basis` how tokens were estimated."""

    stage: str
    basis: str
    coverage: str
    categories: Mapping[str, int]
    estimated_tokens: int
    item_stage: str | None = None
    baseline: bool | None = None
    sample_offset_ns: int | None = None
    reported_tokens: int | None = None
    window_tokens: int | None = None
    effective_window_tokens: int | None = None
    compact_threshold_tokens: int | None = None
    model: str | None = None
    changes: tuple[ContextChange, ...] = ()
    omitted_changes: int = 0

    def to_annotation(self) -> dict[str, Any]:
        """Return the `context` annotation; what is not known is absent."""
        plain: dict[str, Any] = {"version": VERSION}
        for field in attrs.fields(ContextSnapshot):
            value = getattr(self, field.name)
            if field.name != "changes" and value is not None:
                plain[field.name] = dict(value) if isinstance(value, Mapping) else value
        if self.changes:
            plain["changes"] = [
                {
                    "id": change.item.id,
                    "category": change.item.category,
                    "tokens": change.item.tokens,
                    "delta_tokens": change.delta_tokens,
                    "change": change.change,
                }
                for change in self.changes
            ]
        return plain


def compute_estimate(characters: int) -> int:
    """Return the tokens of so many characters or bytes at four a token, rounded up."""
    return -(-characters // 4)


def compute_categories(items: Sequence[ContextItem]) -> dict[str, int]:
    """Return the tokens of each category that has any. Raises ValueError for a category nobody knows."""
    totals: dict[str, int] = {}
    for item in items:
        if item.category not in CATEGORIES:
            raise ValueError(f"{item.category!r} is no category of a context")
        totals[item.category] = totals.get(item.category, 0) + item.tokens
    return totals


def compute_changes(
    before: Sequence[ContextItem], after: Sequence[ContextItem]
) -> tuple[tuple[ContextChange, ...], int]:
    """Return what changed between two lists of items, the largest 64 first, and how many changes that leaves out."""
    old = {item.id: item for item in before}
    new = {item.id: item for item in after}
    changes = [
        ContextChange(item, item.tokens - (old[item.id].tokens if item.id in old else 0), _name_change(item, old))
        for item in after
        if item.id not in old or old[item.id].tokens != item.tokens
    ]
    changes += [
        ContextChange(attrs.evolve(item, tokens=0), -item.tokens, "removed") for item in before if item.id not in new
    ]
    changes.sort(key=lambda change: -abs(change.delta_tokens))
    return tuple(changes[:MOST_CHANGES]), max(0, len(changes) - MOST_CHANGES)


def _name_change(item: ContextItem, old: Mapping[str, ContextItem]) -> str:
    return "changed" if item.id in old else "added"
