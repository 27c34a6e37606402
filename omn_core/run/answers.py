"""From what was read to what is said: the window's events, filtered and answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omn_core.emit.stack_keys import add_leaves, count_stackless
from omn_core.errors import PluginError
from omn_core.filter import compile_filter
from omn_core.filter.evaluate import apply_filter
from omn_core.model.batch import Batch
from omn_core.model.collector import InTargetCost
from omn_core.model.losses import Losses, compute_total_losses
from omn_core.model.request import POLLED_MODES
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.result import FilterAccount, Result
from omn_core.model.stacks import WITHIN
from omn_core.model.watched import Window
from omn_core.plugins import Registry
from omn_core.run.measurement import Measurement

_NEVER_OPENED = "the run ended before its window opened"
_PROGRAM_IS_WINDOW = "the launched program set the window of this figure, not its scope: {scope} is what it is about"
_OF_PROCESSES = ("process", "thread")


def compute_result(measurement: Measurement, registry: Registry, run: Window, *, has_program: bool) -> Result:
    """Return one request's result. Called after every collector was stopped."""
    resolved, stages = measurement.resolved, measurement.stages
    window = Window(stages[0].window(run).opened_ns, measurement.window(run).closed_ns)
    row_stamp = measurement.ask("row_stamp", None)
    losses = compute_total_losses(
        [lost for stage in stages for lost in (stage.ask("losses", Losses()), stage.own_losses())]
    )
    batch = Batch.concatenate([gather(stage, stage.window(run)) for stage in stages])
    kept, account = _apply_filter(measurement, batch)
    never_opened = measurement.opened_ns is None
    series: Any = ()
    raw: Any = None
    try:
        if not never_opened:  # of a window that was none there is no figure, a zero least of all
            series, raw = _answer(measurement, registry, kept, window, losses)
    except PluginError as error:  # an emit's: its request fails, and the others' results stand
        measurement.fail(str(error))
    scope = resolved.target.scope if measurement.bound is None else measurement.bound.scope
    return Result(
        resolved=resolved,
        scope=scope,
        window=window,
        events_seen=len(batch),
        series=series,
        losses=losses,
        ts_err_ns=None if batch.ts_err is None or not len(batch) else int(batch.ts_err.max()),
        filter=account,
        degraded=(
            *(sentence for stage in stages for sentence in stage.resolved.degraded),
            *_list_once(stages, "degradations"),
        ),
        unverified=resolved.unverified,
        facts=_list_facts(measurement, batch, kept, window),
        caveats=_list_caveats(resolved, scope, has_program=has_program),
        fields=_add_fields([stage.ask("fields", {}) for stage in stages]),
        stopped_because=measurement.stopped_because or (_NEVER_OPENED if never_opened else None),
        row_stamp=row_stamp,
        attached_ns=stages[0].attached_ns,
        detached_ns=measurement.detached_ns,
        failure=next((why for stage in stages if (why := stage.failure or stage.ask("failure", None))), None),
        target=_describe_target(measurement),
        raw=raw,
    )


def _list_facts(measurement: Measurement, batch: Batch, kept: Batch, window: Window) -> tuple[str, ...]:
    """List what is said of a result besides its figures: of all that was read, and of what passed the filter."""
    stages = measurement.stages
    return (
        *(stage.moved for stage in stages if stage.moved is not None),
        *(() if measurement.bound is None else measurement.bound.facts),
        *_explain_brevity(measurement, batch, window),
        *_explain_absence(measurement, batch),
        *_explain_mixture(measurement.resolved, kept),
        *_explain_stack_keys(measurement.resolved, kept),
        *_list_once(stages, "facts"),
    )


def _list_caveats(resolved: ResolvedRequest, scope: str, *, has_program: bool) -> tuple[str, ...]:
    caveats = tuple(resolved.entry.caveats_of(resolved.target.kind))
    if has_program and scope not in _OF_PROCESSES:
        return (*caveats, _PROGRAM_IS_WINDOW.format(scope=scope))
    return caveats


def _explain_brevity(measurement: Measurement, batch: Batch, window: Window) -> tuple[str, ...]:
    """Say that a window was over before its first tick: what was read says little of it, and silence is no zero."""
    interval_ns = measurement.resolved.interval_ns
    if interval_ns is None or measurement.opened_ns is None or window.length_ns >= interval_ns:
        return ()
    if len(batch) and not measurement.reads_at_open:
        return ()
    read = "only its ends were read" if len(batch) else "nothing was read"
    return (
        (
            f"the window of {window.length_ns / 1e6:.3g} ms was shorter than the interval of {interval_ns / 1e6:g} ms, "
            f"and {read}: a shorter --interval reads more"
        ),
    )


def _explain_absence(measurement: Measurement, batch: Batch) -> tuple[str, ...]:
    """Say why there is no snapshot where its target had ended: that nothing is there is no figure of the target."""
    is_missed = measurement.resolved.mode == "snapshot" and measurement.gone_ns is not None and not len(batch)
    return ("its target ended before its snapshot was taken",) if is_missed and measurement.failure is None else ()


def _explain_mixture(resolved: ResolvedRequest, batch: Batch) -> tuple[str, ...]:
    """Say that one series holds the levels of several things (processes, cpus, nodes), which make no sum together."""
    is_level = not resolved.adds_up and resolved.mode in (*POLLED_MODES, "snapshot")
    if not is_level or resolved.keys or all(emit.name == "raw" for emit in resolved.emits):
        return ()
    key = next((name for name in resolved.entry.keys_of(resolved.backend) if name in batch.keys), None)
    rows = int(np.unique(batch.ts, return_counts=True)[1].max(initial=0))
    if key is None or rows < 2:
        return ()
    return (f"one series holds the readings of {rows} at a time, mixed and not added up: --keys {key} divides them",)


def _explain_stack_keys(resolved: ResolvedRequest, batch: Batch) -> tuple[str, ...]:
    """Say how many events have no stack to read a key from, and that one event is in several series by `within`."""
    said = []
    stackless = count_stackless(batch) if resolved.stack_keys else 0
    if stackless:
        keys = " and no ".join(resolved.stack_keys)
        said.append(f"{stackless} of {len(batch)} events have no stack, and so no {keys}")
    if WITHIN in resolved.keys:
        said.append("a series is all that ran within a function, what that called included: they do not add up")
    return tuple(said)


def _list_once(stages: Sequence[Measurement], name: str) -> list[str]:
    """List the sentences of an account of a request's measurements, each once."""
    none: tuple[str, ...] = ()
    return list(dict.fromkeys(sentence for stage in stages for sentence in stage.ask(name, none)))


def _add_fields(several: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """Add up the counts of a request's measurements, each under its name."""
    names = dict.fromkeys(name for fields in several for name in fields)
    return {name: sum(fields.get(name, 0) for fields in several) for name in names}


def get_in_target_cost(measurement: Measurement) -> tuple[str, InTargetCost]:
    """Return what a request's mechanism spent inside the target, with its source; unknown where it cannot say.

    One that was never attached, because its window never opened, spent nothing there.
    """
    if measurement.bound is None:
        return measurement.resolved.request.source, InTargetCost(0)
    return measurement.resolved.request.source, measurement.ask("in_target_cost", InTargetCost(None))


def gather(measurement: Measurement, window: Window) -> Batch:
    """Return the events of a measurement's window, in one batch.

    Events stamped outside it, by more than their own uncertainty, are none of it: a stream runs from its attach until
    its stop. Rows that are not stamped at their own event (drained ones) are all kept.
    """
    batch = Batch.concatenate(measurement.batches)
    if measurement.ask("row_stamp", None) is not None or not len(batch):
        return batch
    error = 0 if batch.ts_err is None else batch.ts_err
    inside = (batch.ts + error >= window.opened_ns) & (batch.ts - error <= window.closed_ns)
    return batch if inside.all() else batch.select(np.asarray(inside))


def _apply_filter(measurement: Measurement, batch: Batch) -> tuple[Batch, FilterAccount | None]:
    expression = measurement.resolved.request.filter
    if expression is None:
        return batch, None
    predicate = compile_filter(expression)
    shown = add_leaves(batch, measurement.context.stacks, predicate.fields)
    mask, absent = apply_filter(predicate, shown, measurement.resolved.value)
    kept = int(mask.sum())
    applied_by = measurement.resolved.filter_applied_by or "userspace"
    return batch.select(mask), FilterAccount(expression, applied_by, kept, len(batch) - kept, absent)


def _answer(
    measurement: Measurement, registry: Registry, batch: Batch, window: Window, losses: Losses
) -> tuple[Any, Any]:
    from omn_core.emit.answer import answer

    resolved = measurement.resolved
    hears_all = all(getattr(stage.collector, "hears_all", False) for stage in measurement.stages)
    stacks = measurement.context.stacks
    return answer(resolved, registry, batch, window, losses, str(resolved.target), stacks, hears_all=hears_all)


def _describe_target(measurement: Measurement) -> Mapping[str, Any]:
    described = {} if measurement.bound is None else measurement.bound.described
    return {**measurement.resolved.target.to_plain(), **described}
