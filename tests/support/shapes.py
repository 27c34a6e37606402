"""Small makers of the shapes that tests of emits, formats and the store need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pluggy

from omn_core.builtin import omn_emits
from omn_core.emit.base import Answer, Series
from omn_core.model.batch import Batch, Column, Names
from omn_core.model.catalog import Backend, Entry
from omn_core.model.losses import Losses
from omn_core.model.request import EmitSpec, Request, Session, parse_emit
from omn_core.model.resolved import Link, LinkState, ResolvedRequest, ResolvedSession
from omn_core.model.result import Cost, Document, ProgramResult, Result
from omn_core.model.rows import CollectorRow
from omn_core.model.target import Target
from omn_core.model.watched import Window
from omn_core.plugins import Registry

SECOND = 1_000_000_000
WINDOW = Window(10 * SECOND, 12 * SECOND)
REGISTRY = Registry([], pluggy.PluginManager("omn"), emits={row.name: row for row in omn_emits()})


def make_batch(
    values: Sequence[Any],
    *,
    ts: Sequence[int] | None = None,
    weight: Sequence[Any] | None = None,
    keys: Mapping[str, Sequence[Any]] | None = None,
    names: Names | None = None,
    **attributes: Sequence[Any],
) -> Batch:
    """Make events that measured `value`, a nanosecond apart from the window's opening unless `ts` says when."""
    names = Names() if names is None else names
    when = range(WINDOW.opened_ns, WINDOW.opened_ns + len(values)) if ts is None else ts
    return Batch(
        np.array(when, np.int64),
        keys={name: Column.of(part, names) for name, part in (keys or {}).items()},
        attributes={
            "value": Column.of(values, names),
            **{name: Column.of(part, names) for name, part in attributes.items()},
        },
        weight=None if weight is None else np.array(weight),
    )


def make_series(batch: Batch, **changes: Any) -> Series:
    """Make a series whose values add up, in bytes, over two seconds, that lost nothing."""
    given: dict[str, Any] = {
        "key": {},
        "batch": batch,
        "value": "value",
        "unit": "bytes",
        "window": WINDOW,
        "adds_up": True,
        "lower_bound": False,
        "label": "pid 7",
    }
    return Series(**given | changes)


def ask(emit: str, batch: Batch, **changes: Any) -> Answer:
    """Ask one built-in emit over one series."""
    spec = parse_emit(emit)
    found: Answer = REGISTRY.load(REGISTRY.emits[spec.name].reference).compute(make_series(batch, **changes), spec)
    return found


def make_resolved(emits: Sequence[str] = ("summary",), **changes: Any) -> ResolvedRequest:
    """Make a request on a two-backend source, resolved onto the second because the first is missing."""
    specs: tuple[EmitSpec, ...] = tuple(map(parse_emit, emits))
    mode = changes.pop("mode", "poll")
    keys = tuple(changes.pop("keys", ()))
    target = changes.pop("target", Target("pid", (7,)))
    first = Backend("bpf:tp", (), "low")
    second = Backend("fs:proc", (), "free", equivalent=True)
    entry = Entry(
        id="mem.test",
        title="a test",
        unit="bytes",
        value="value",
        modes=(mode,),
        emits={mode: tuple(spec.name for spec in specs)},
        targets={"pid": None},
        attributes={"value": "bytes"},
        keys=keys,
        filter_fields=(),
        determinism="high",
        chain=(first, second),
    )
    given: dict[str, Any] = {
        "request": Request("mem.test", mode, specs, keys, target),
        "entry": entry,
        "backend": second,
        "collector": CollectorRow("mem.test", "fs:proc", "nowhere:Nothing"),
        "chain": (
            Link("bpf:tp", LinkState.MISSING, "this kernel has no BTF", "a kernel built with CONFIG_DEBUG_INFO_BTF"),
            Link("fs:proc", LinkState.SELECTED),
        ),
        "mode": mode,
        "emits": specs,
        "target": target,
        "value": "value",
        "unit": "bytes",
        "adds_up": True,
        "interval_ns": SECOND if mode == "poll" else None,
        "defaulted": ("mode poll",),
    }
    return ResolvedRequest(**given | changes)


def make_result(batch: Batch, emits: Sequence[str] = ("summary",), **changes: Any) -> Result:
    """Make a result of events through the answer layer. `losses` and the fields of a result or request may be given."""
    from omn_core.emit.answer import answer

    of_result = {name: changes.pop(name) for name in list(changes) if name in Result.__annotations__}
    resolved = make_resolved(emits, **changes)
    losses = of_result.get("losses", Losses())
    series, raw = answer(resolved, REGISTRY, batch, WINDOW, losses, "pid 7")
    given: dict[str, Any] = {
        "resolved": resolved,
        "scope": "process",
        "window": WINDOW,
        "events_seen": len(batch),
        "series": series,
        "raw": raw,
    }
    return Result(**given | of_result)


def make_document(*results: Result, **changes: Any) -> Document:
    """Make a run of a program that exited with 3."""
    session = ResolvedSession(
        Session(tuple(result.resolved.request for result in results)),
        tuple(result.resolved for result in results),
        {"kernel": "6.18.0", "cpus": 2},
    )
    given: dict[str, Any] = {
        "session": session,
        "environment": session.environment,
        "window": WINDOW,
        "results": results,
        "cost": Cost(20_000_000, 200_000_000, 10_000_000, target_ns=2 * SECOND),
        "program": ProgramResult(("prog", "a b"), 7, {"code": 3}, 2 * SECOND, SECOND, SECOND * 9 // 10),
        "plugins": {"omn": "0.1.0"},
    }
    return Document(**given | changes)
