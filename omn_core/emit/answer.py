"""A request's events made into its answer: divided into series, each handed to every emit that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from omn_core.emit.base import Answer, Emit, Series
from omn_core.emit.labels import find_labels
from omn_core.emit.numbers import compute_total
from omn_core.emit.series import divide
from omn_core.emit.stack_keys import add_leaves
from omn_core.errors import PLUGIN_FAULTS, PluginError
from omn_core.model.batch import Batch, Column
from omn_core.model.losses import Losses
from omn_core.model.request import POLLED_MODES, EmitSpec
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.result import RawEvents, SeriesResult
from omn_core.model.rows import EmitRow
from omn_core.model.stacks import WITHIN, Stacks
from omn_core.model.watched import Window
from omn_core.plugins import Registry


def answer(
    resolved: ResolvedRequest,
    registry: Registry,
    batch: Batch,
    window: Window,
    losses: Losses,
    label: str,
    stacks: Stacks | None = None,
    *,
    hears_all: bool = False,
) -> tuple[tuple[SeriesResult, ...], RawEvents | None]:
    """Return every series' answers over the events that passed the filter, and the events themselves if asked for.

    `label` names the request's target, for a ranking that counted nothing; `stacks` is the run's table; `hears_all`
    says that each occurrence was told, as a trace tells it anyway, so that none of them is a zero. Without keys
    there is always one series, which says that it counted nothing when there are no events; with keys there is one for
    each key that occurred.
    Raises PluginError, naming the emit's owner, where an emit raises or does not answer with a dict.
    """
    asked = [_Asked(spec, registry.emits[spec.name], registry) for spec in resolved.emits]
    loaded = [(one, one.load()) for one in asked]
    events = _measurable(batch, resolved.value)
    if stacks is not None:
        events = add_leaves(events, stacks, resolved.stack_keys)
    is_whole = (hears_all or resolved.mode == "trace") and not losses.is_lower_bound and window.length_ns > 0
    everything = _make_series(resolved, events, window, losses, label, stacks, hears_all=is_whole)
    whole = compute_total(everything.sums) if WITHIN in resolved.keys else None
    parts = divide(events, resolved.keys, stacks)

    def make_series(key: Mapping[str, Any], part: Batch) -> Series:
        # Made anew each time: what a series has computed of its events goes with it.
        return attrs.evolve(everything, key=key, batch=part, whole=whole)

    together = {
        str(one.spec): one.compute_several(emit, [make_series(*part) for part in parts])
        for one, emit in loaded
        if resolved.keys and hasattr(emit, "compute_several")
    }
    series_results = []
    for place, (key, part) in enumerate(parts):
        series = make_series(key, part)
        answers = {
            name: together[name][place] if name in together else one.compute(emit, series)
            for one, emit in loaded
            for name in [str(one.spec)]
        }
        series_results.append(SeriesResult(key, answers, find_labels(part, key, resolved.labels)))
    lists_events = any(one.row.lists_events for one in asked)
    return tuple(series_results), RawEvents(_by_time(batch), stacks) if lists_events else None


def _make_series(
    resolved: ResolvedRequest,
    events: Batch,
    window: Window,
    losses: Losses,
    label: str,
    stacks: Stacks | None,
    *,
    hears_all: bool,
) -> Series:
    """Make the series of all events, of which each one's differs in its key and its events alone."""
    return Series(
        key={},
        batch=events,
        value=resolved.value,
        unit=resolved.unit,
        window=window,
        adds_up=resolved.adds_up,
        lower_bound=losses.is_lower_bound,
        label=label,
        merges_ticks=resolved.adds_up and resolved.mode in POLLED_MODES,
        scale=resolved.scale,
        labels=resolved.labels,
        stacks=stacks,
        apart=resolved.apart,
        hears_all=hears_all,
    )


def _measurable(batch: Batch, value: str) -> Batch:
    """Return the events with a measured column that emits can compute with.

    A text and a float that is not finite measure nothing: the event stays and its measurement is absent.
    """
    column = batch.column(value)
    if column is None or (column.names is None and column.values.dtype.kind in "iu"):
        return batch
    if column.names is not None:
        column = Column(np.zeros(len(batch), np.int64), np.zeros(len(batch), bool))
    elif column.values.dtype.kind == "b":
        column = Column(column.values.astype(np.int64), column.present)
    else:
        is_finite = np.isfinite(column.values)
        if is_finite.all():
            return batch
        column = Column(column.values, column.is_present & is_finite)
    return attrs.evolve(batch, attributes={**batch.attributes, value: column})


def _by_time(batch: Batch) -> Batch:
    if not len(batch) or bool((np.diff(batch.ts) >= 0).all()):
        return batch
    return batch.select(np.argsort(batch.ts, kind="stable"))


@attrs.frozen
class _Asked:
    """An emit that was asked for; what its plugin does is done in a guard that names the plugin."""

    spec: EmitSpec
    row: EmitRow
    registry: Registry

    def load(self) -> Emit:
        """Import it. Raises PluginError."""
        try:
            emit: Emit = self.registry.load(self.row.reference)
        except PLUGIN_FAULTS as error:  # a guarded plugin call: importing what a row names runs the plugin's code
            raised = f"importing {self.row.reference} raised {type(error).__name__}: {error}"
            raise self._blame(raised) from error
        return emit

    def compute(self, emit: Emit, series: Series) -> Answer:
        """Return its answer over a series. Raises PluginError."""
        return self._check(self._ask(lambda: emit.compute(series, self.spec)), series)

    def compute_several(self, emit: Any, several: list[Series]) -> list[Answer]:
        """Return its answer over each of several series, asked of it at once. Raises PluginError."""
        found = self._ask(lambda: list(emit.compute_several(several, self.spec)))
        if len(found) != len(several):
            raise self._blame(f"emit {self.spec} gave {len(found)} answers over {len(several)} series")
        return [self._check(one, series) for one, series in zip(found, several, strict=True)]

    def _ask(self, compute: Callable[[], Any]) -> Any:
        try:
            return compute()
        except PLUGIN_FAULTS as error:  # a guarded plugin call
            raise self._blame(f"emit {self.spec} raised {type(error).__name__}: {error}") from error

    def _check(self, found: Any, series: Series) -> Answer:
        if not isinstance(found, dict):
            raise self._blame(f"emit {self.spec} answered {type(found).__name__}, not a dict")
        return {"lower_bound": series.lower_bound, **found}

    def _blame(self, reason: str) -> PluginError:
        owners = [one for one in self.registry.records if any(row is self.row for row in one.rows.get("emits", ()))]
        name, distribution = (owners[0].name, owners[0].distribution) if owners else (self.row.name, None)
        return PluginError(name, distribution, reason)
