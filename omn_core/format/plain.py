"""A document as plain values, in the names and nesting that other programs read. Raw events stay in their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from omn_core import SCHEMA, __version__
from omn_core.model.losses import Losses
from omn_core.model.resolved import Link, ResolvedRequest
from omn_core.model.result import Cost, Document, FilterAccount, ProgramResult, Repeat, Result
from omn_core.model.watched import Window
from omn_core.names import escape_tree
from omn_core.session.composed import make_plain_composition

_ABSENT_BLOCKS: Mapping[str, Any] = {"joins": [], "decompositions": [], "record": None}


def compute_plain(document: Document) -> dict[str, Any]:
    """Return the whole document but its raw events: `raw` is None in every result, for the encoder to fill in.

    Every text is UTF-8 (`escape_bytes`). The blocks that plugins add stand at the top level.
    """
    plain = {
        "omn": {"version": __version__, "schema": SCHEMA, "plugins": dict(document.plugins)},
        "environment": dict(document.environment),
        "window": {"clock": "CLOCK_MONOTONIC", **_window(document.window)},
        "ended_by": document.ended_by,
        "program": None if document.program is None else _program(document.program),
        "results": [_result(result) for result in document.results],
        **_ABSENT_BLOCKS,
        "adopted": [{"pid": one.pid, "comm": one.comm, "ended": one.ended} for one in document.adopted],
        "composed": make_plain_composition(document.session.session),
        "notes": list(document.notes),
        **{name: block for name, block in document.extras.items() if name != "budget"},
        "cost": compute_plain_cost(document.cost, document.extras.get("budget")),
    }
    cleaned: dict[str, Any] = escape_tree(plain)
    if document.repeats:
        cleaned["repeats"] = [compute_plain(run) for run in document.repeats]
    return cleaned


def compute_plain_cost(cost: Cost, budget: Any = None) -> dict[str, Any]:
    """Return the cost block: cpu nanoseconds, percentages of the target's own work, None for what is not known."""
    return {
        "tool": {
            "window_cpu_ns": cost.window_ns,
            "before_ns": cost.before_ns,
            "after_ns": cost.after_ns,
            "one_time_cpu_ns": cost.one_time_ns,
        },
        "in_target": {
            "cpu_ns": cost.in_target_ns,
            "left_out": cost.in_target_left_out,
            "unknown": list(cost.in_target_unknown),
        },
        "target_cpu_ns": cost.target_ns,
        "percent": cost.percent,
        "own_percent": cost.own_percent,
        "budget": budget,
    }


def compute_plain_request(resolved: ResolvedRequest, described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as it was run: what was left open filled in, and what results say of its target."""
    request = resolved.request
    window = request.window
    return {
        "id": request.id,
        "source": request.source,
        "mode": resolved.mode,
        "emits": [str(spec) for spec in resolved.emits],
        "keys": list(resolved.keys),
        "target": {**resolved.target.to_plain(), **described},
        "filter": request.filter,
        "value": request.value,
        "interval_ns": resolved.interval_ns,
        "backend": request.backend,
        "stack": request.stack,
        "hz": request.hz,
        "period": request.period,
        "symbols": request.symbols,
        "window": None if window is None else attrs.asdict(window),
    }


def collect_degraded(result: Result) -> list[str]:
    """Return what a result lost in meaning: by the choice of its backend and its walk, then in the run, each once."""
    walk = result.resolved.walk
    by_walk = () if walk is None or walk.degrades is None else (f"stacks by {walk.walk}: {walk.degrades}",)
    return list(dict.fromkeys((*result.resolved.degraded, *by_walk, *result.degraded)))


def collect_unverified(result: Result) -> list[str]:
    """Return what could not be checked of the backend that was used, each sentence once."""
    return list(dict.fromkeys((*result.resolved.unverified, *result.unverified)))


def _result(result: Result) -> dict[str, Any]:
    resolved = result.resolved
    return {
        "request": compute_plain_request(resolved, result.target),
        "backend": resolved.backend.id,
        "chain": [_link(link) for link in resolved.chain],
        "stacks": None if resolved.walk is None else resolved.walk.to_plain(),
        "pinned": resolved.pinned,
        "scope": result.scope,
        "unit": resolved.unit,
        "value": resolved.value,
        "adds_up": resolved.adds_up,
        "window": _window(result.window),
        "events_seen": result.events_seen,
        "ts_err_ns": result.ts_err_ns,
        "filter": None if result.filter is None else _filter(result.filter),
        "losses": _losses(result.losses),
        "defaulted": list(resolved.defaulted),
        "degraded": collect_degraded(result),
        "unverified": collect_unverified(result),
        "facts": list(result.facts),
        "caveats": list(result.caveats),
        "fields": dict(result.fields),
        "stopped_because": result.stopped_because,
        "failure": result.failure,
        "series": [
            {"key": dict(series.key), "labels": dict(series.labels), "emits": dict(series.emits)}
            for series in result.series
        ],
        "repeat": None if result.repeat is None else _repeat(result.repeat),
        "row_stamp": result.row_stamp,
        "attached_ns": result.attached_ns,
        "detached_ns": result.detached_ns,
        "raw": None,
    }


def _repeat(repeat: Repeat) -> dict[str, Any]:
    plain = attrs.asdict(repeat)
    plain["series"] = [
        {**series, "key": dict(series["key"]), "labels": dict(series["labels"])} for series in plain["series"]
    ]
    return plain


def _link(link: Link) -> dict[str, Any]:
    return {"backend": link.backend, "state": link.state.value, "reason": link.reason, "remedy": link.remedy}


def _window(window: Window) -> dict[str, int]:
    return {"opened_ns": window.opened_ns, "closed_ns": window.closed_ns}


def _filter(account: FilterAccount) -> dict[str, Any]:
    return {**attrs.asdict(account), "absent_fields": list(account.absent_fields)}


def _losses(losses: Losses) -> dict[str, Any]:
    plain = attrs.asdict(losses)
    return {name: _listed(value) for name, value in plain.items()}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _program(program: ProgramResult) -> dict[str, Any]:
    return {
        "argv": list(program.argv),
        "pid": program.pid,
        "exit": None if program.exit is None else dict(program.exit),
        "lifetime_ns": program.lifetime_ns,
        "cpu_ns": program.cpu_ns,
        "own_cpu_ns": program.own_cpu_ns,
    }
