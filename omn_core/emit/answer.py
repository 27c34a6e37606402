"""A request's events made into its answer: divided into series, each handed to every emit that was asked for."""

from __future__ import annotations

from collections.abc import Callable
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
    emits = [(spec, registry.emits[spec.name]) for spec in resolved.emits]
    loaded = [(spec, row, _load(row, registry)) for spec, row in emits]
    events = _measurable(batch, resolved.value)
    if stacks is not None:
        events = add_leaves(events, stacks, resolved.stack_keys)
    parts = divide(events, resolved.keys, stacks)
    whole: int | float | None = None
    is_whole = (hears_all or resolved.mode == "trace") and not losses.is_lower_bound and window.length_ns > 0

    def make_series(key: dict[str, Any], part: Batch) -> Series:
        return Series(
            key=key,
            batch=part,
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
            whole=whole,
            hears_all=is_whole,
        )

    if WITHIN in resolved.keys:
        whole = compute_total(make_series({}, events).sums)

    together = {
        str(spec): _compute_several(emit, [make_series(*part) for part in parts], spec, row, registry)
        for spec, row, emit in loaded
        if resolved.keys and hasattr(emit, "compute_several")
    }
    series_results = []
    for place, (key, part) in enumerate(parts):
        # Made anew for each: what a series has computed of its events goes with it.
        series = make_series(key, part)
        answers = {
            str(spec): together[str(spec)][place]
            if str(spec) in together
            else _compute(emit, series, spec, row, registry)
            for spec, row, emit in loaded
        }
        series_results.append(SeriesResult(key, answers, find_labels(part, key, resolved.labels)))
    lists_events = any(row.lists_events for _, row in emits)
    return tuple(series_results), RawEvents(_by_time(batch), stacks) if lists_events else None


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


def _load(row: EmitRow, registry: Registry) -> Emit:
    try:
        emit: Emit = registry.load(row.reference)
    except PLUGIN_FAULTS as error:  # a guarded plugin call: importing what a row names runs the plugin's code
        raise _blame(row, registry, f"importing {row.reference} raised {type(error).__name__}: {error}") from error
    return emit


def _compute(emit: Emit, series: Series, spec: EmitSpec, row: EmitRow, registry: Registry) -> Answer:
    found = _ask(lambda: emit.compute(series, spec), spec, row, registry)
    return _check(found, series, spec, row, registry)


def _compute_several(
    emit: Any, several: list[Series], spec: EmitSpec, row: EmitRow, registry: Registry
) -> list[Answer]:
    found = _ask(lambda: list(emit.compute_several(several, spec)), spec, row, registry)
    if len(found) != len(several):
        raise _blame(row, registry, f"emit {spec} gave {len(found)} answers over {len(several)} series")
    return [_check(one, series, spec, row, registry) for one, series in zip(found, several, strict=True)]


def _ask(compute: Callable[[], Any], spec: EmitSpec, row: EmitRow, registry: Registry) -> Any:
    try:
        return compute()
    except PLUGIN_FAULTS as error:  # a guarded plugin call
        raise _blame(row, registry, f"emit {spec} raised {type(error).__name__}: {error}") from error


def _check(found: Any, series: Series, spec: EmitSpec, row: EmitRow, registry: Registry) -> Answer:
    if not isinstance(found, dict):
        raise _blame(row, registry, f"emit {spec} answered {type(found).__name__}, not a dict")
    return {"lower_bound": series.lower_bound, **found}


def _blame(row: EmitRow, registry: Registry, reason: str) -> PluginError:
    owners = [record for record in registry.records if any(given is row for given in record.rows.get("emits", ()))]
    name, distribution = (owners[0].name, owners[0].distribution) if owners else (row.name, None)
    return PluginError(name, distribution, reason)
