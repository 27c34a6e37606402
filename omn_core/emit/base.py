"""What every emit is handed and gives back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import attrs
import numpy as np

from omn_core.emit.numbers import compute_products, compute_sums
from omn_core.model.batch import Array, Batch, Column
from omn_core.model.request import EmitSpec
from omn_core.model.stacks import Stacks
from omn_core.model.style import TextStyle
from omn_core.model.watched import Window

Answer = dict[str, Any]
"""An emit's answer: plain values that any encoder can write, its `lower_bound` among them."""


@attrs.define(eq=False, slots=False)
class Series:
    """The events of one series, with what an emit must know to read them.

    `batch` holds the events that passed the filter; `value` names the attribute that is the measurement and `unit` its
    unit; `adds_up` says whether values sum; `lower_bound` whether something was lost that belongs in the figure;
    `label` names the series where a row must be shown for it (its target, when nothing was counted);
    `merges_ticks` says that the rows of one instant are parts of one measurement (a polled source whose values sum);
    `scale` is the vocabulary's word for how numbers of the unit scale, None where it has none; `labels` names the
    attribute that says what a key is called; `apart` are the keys whose values count different things; `stacks` is the
    run's table, which the events' stacks are numbers in. `whole` is what the events of all series add up to where an
    event may be in several of them, so that their sums make more; None where each is in one. `hears_all` says that each
    occurrence is an event and none was lost, so that no events are a zero.
    """

    key: Mapping[str, Any]
    batch: Batch
    value: str
    unit: str
    window: Window
    adds_up: bool
    lower_bound: bool
    label: str
    merges_ticks: bool = False
    scale: str | None = None
    labels: Mapping[str, str] = attrs.field(factory=dict)
    stacks: Stacks | None = None
    apart: tuple[str, ...] = ()
    whole: int | float | None = None
    hears_all: bool = False

    @cached_property
    def column(self) -> Column | None:
        """The measured attribute's column, None when no event carries it."""
        return self.batch.column(self.value)

    @cached_property
    def measured(self) -> Array | None:
        """The index of the events that carry the measurement, None when every event does."""
        column = self.column
        if column is None:
            return np.empty(0, np.int64)
        return None if column.present is None else np.flatnonzero(column.present)

    @cached_property
    def values(self) -> Array:
        """The measurement of each event that carries it."""
        column = self.column
        if column is None:
            return np.empty(0, np.int64)
        return column.values if self.measured is None else column.values[self.measured]

    @cached_property
    def weights(self) -> Array | None:
        """How many occurrences each measured event stands for, None for one each."""
        weight = self.batch.weight
        return weight if weight is None or self.measured is None else weight[self.measured]

    @cached_property
    def spans(self) -> Array | None:
        """How long each measured event describes, nanoseconds: its `interval_ns`, of a share or another level.

        None where events describe moments or occurrences, and where a time is measured, which is none the more for
        the length of its interval. A reading over a short last interval says less of the window than one over a whole
        interval.
        """
        lengths = self.batch.attributes.get("interval_ns")
        if lengths is None or lengths.present is not None or self.adds_up or self.weights is not None:
            return None
        if self.unit == "ns":
            return None
        return lengths.values if self.measured is None else lengths.values[self.measured]

    @cached_property
    def sums(self) -> Array:
        """What each measured event adds to a total: its exact `total_ns` where it has one, else value times weight.

        `total_ns` is a duration's own sum, kept by a row that the kernel aggregated; no other unit is summed by it.
        """
        if self.weights is None:
            return self.values
        exact = self.batch.attributes.get("total_ns") if self.unit == "ns" else None
        if exact is None:
            return compute_products(self.values, self.weights)
        if self.measured is not None:
            exact = exact.select(self.measured)
        if exact.present is None:
            return exact.values
        return np.where(exact.present, exact.values, compute_products(self.values, self.weights))

    @cached_property
    def merged(self) -> Series:
        """The series with one row a measurement: itself, or its ticks summed where `merges_ticks`.

        What an emit reads that counts or orders measurements. Attributes and weights are gone from merged rows.
        """
        if not self.merges_ticks:
            return self
        when = self.batch.ts if self.measured is None else self.batch.ts[self.measured]
        instants, codes = np.unique(when, return_inverse=True)
        if len(instants) == len(self.batch) and self.weights is None:
            return self
        totals = Column(compute_sums(codes.reshape(-1), self.sums, len(instants)))
        return attrs.evolve(self, batch=Batch(instants, attributes={self.value: totals}), merges_ticks=False)


class Emit(Protocol):
    """One way to make an answer of events. An emit holds no state: one object serves every series of every run.

    One whose answers of several series read better together also has `render_several(rows, unit, style, key_names)`,
    which gets all (key, answer) rows, the greatest first, and returns lines as `render` does; it is not asked where the
    emit is by an attribute. One whose answer over a series depends on the others also has
    `compute_several(several, spec)`, which gets all of them where keys divide the events and answers each.
    """

    def compute(self, series: Series, spec: EmitSpec) -> Answer:
        """Return the answer over one series. It reads weights, and says `lower_bound` as the series does."""

    def render(self, answer: Mapping[str, Any], unit: str, style: TextStyle) -> list[str]:
        """Return the lines of the text format, without trailing spaces, no wider than the style allows.

        `style.scale` says how numbers of the unit scale, `style.is_level` that the answer is of readings of a level.
        """
