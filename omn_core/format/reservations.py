"""What stands between a run's numbers and the truth, as sentences: for formats that have no field for each kind."""

from __future__ import annotations

from collections.abc import Iterator

from omn_core.format.plain import collect_degraded, collect_unverified
from omn_core.format.sentences import list_stops, render_lost
from omn_core.model.result import Document, Result


def iter_reservations(document: Document) -> Iterator[str]:
    """Iterate over what a budget stopped, then what each result lost, and what of it is degraded, unverified or failed.

    Nothing where nothing has to be said.
    """
    yield from list_stops(document)
    for result in document.results:
        for sentence in _collect(result):
            yield f"{result.resolved.entry.id}: {sentence}"


def _collect(result: Result) -> list[str]:
    return [
        *([] if result.losses.is_empty else ["lost: " + "; ".join(render_lost(result.losses))]),
        *(f"degraded: {sentence}" for sentence in collect_degraded(result)),
        *(f"not verified: {sentence}" for sentence in collect_unverified(result)),
        *([] if result.failure is None else [f"failed: {result.failure}"]),
    ]
