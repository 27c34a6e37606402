"""What keys are called: the newest word that events say of each, beside the number that tells it from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from omn_core.model.batch import Array, Batch


def find_labels(batch: Batch, names: Iterable[str], labels: Mapping[str, str]) -> dict[str, str]:
    """Find what each part of a series' key is called, left out where none of its events says it.

    `names` has the key's names, `labels` the attribute that says what a key is called.
    """
    whole = np.zeros(len(batch), np.int64)
    found = {key: find_newest(batch, labels[key], whole, 1)[0] for key in names if key in labels and len(batch)}
    return {key: label for key, label in found.items() if label is not None}


def find_newest(batch: Batch, attribute: str, codes: Array, count: int) -> list[str | None]:
    """Find the newest text of an attribute among the events of each code from 0 to `count`, None where none has it."""
    column = batch.attributes.get(attribute, batch.keys.get(attribute))
    newest: list[str | None] = [None] * count
    if column is None or column.names is None:
        return newest
    there = np.flatnonzero(column.is_present)
    order = there[np.argsort(batch.ts[there], kind="stable")]
    last = np.full(count, -1, np.int64)
    last[codes[order]] = order  # of several events with one code the last is kept
    for code in np.flatnonzero(last >= 0).tolist():
        newest[code] = column.names.text(int(column.values[last[code]]))
    return newest
