"""The answers of a run beside a recording, as a recording keeps them: lives, figures by process, values over time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from omn_agent.machine.lives import make_lives
from omn_agent.machine.model import Figure, Machine, Track
from omn_core.api import Document, LeftOut, Result, SeriesResult, iter_reservations, iter_rows, render_series

_NUMBERED = frozenset({"proc", "task", "cpu", "dev", "iface", "dir", "level", "node", "gpu", "irq", "softirq", "state"})
"""Keys whose values are numbers or the kernel's words: nothing that a person wrote can be in them."""


def make_answers(document: Document, left_out: Sequence[LeftOut], asked: int, has_content: bool) -> bytes:
    """Return a run as lines of JSON. Its first `asked` results are a person's own, the others tell of processes.

    Without content nothing is kept that a person may have written: no name of a process, no key that is a text.
    """
    own, told = document.results[:asked], document.results[asked:]
    machine = Machine(document.window.opened_ns, document.window.closed_ns)
    machine.sources = list(dict.fromkeys(result.resolved.entry.id for result in own))
    machine.said = [
        *iter_reservations(attrs.evolve(document, results=own)),
        *_iter_lost(attrs.evolve(document, results=told)),
        *(f"which process is whose is not known: {one.reason}" for one in left_out),
    ]
    if not left_out:
        rows = [row for result in told for part in iter_rows(result) for row in part]
        machine.lives = make_lives(rows, _find_pid(document))
        by_pid: dict[int, list[Figure]] = {}
        for result in own:
            for pid, figure in _iter_figures(result, has_content):
                by_pid.setdefault(pid, []).append(figure)
        counted = Counter(life.pid for life in machine.lives)
        for life in machine.lives:
            life.name = life.name if has_content else None
            if counted[life.pid] == 1:  # of a number that two processes had nobody can tell them apart
                life.figures += by_pid.get(life.pid, [])
    machine.tracks = [track for result in own for track in _iter_tracks(result, has_content)]
    return b"".join(json.dumps(part).encode() + b"\n" for part in machine.iter_plain())


def _iter_lost(document: Document) -> Iterator[str]:
    """Yield what stands between the rows that tell of processes and the truth, but for what execs always lack."""
    return (sentence for sentence in iter_reservations(document) if not sentence.startswith("proc.exec: degraded: "))


def _find_pid(document: Document) -> int | None:
    targets = (result.resolved.asked_target for result in document.results)
    return next((target.tasks[0] for target in targets if target.kind == "pid"), None)


def _iter_shown(result: Result, has_content: bool) -> Iterator[SeriesResult]:
    """Yield the series that may be kept."""
    return (series for series in result.series if has_content or set(series.key) <= _NUMBERED)


def _iter_figures(result: Result, has_content: bool) -> Iterator[tuple[int, Figure]]:
    """Yield each process's figure, named after the source and what else divides its series."""
    for series in _iter_shown(result, has_content):
        pid = _parse_process(series.key.get("proc"))
        found = _find_figure(series.emits)
        if pid is not None and found is not None and "task" not in series.key:
            rest = [str(value) for name, value in series.key.items() if name != "proc"]
            value, is_peak = found
            name = " ".join([result.resolved.entry.id, *_list_value(result), *rest])
            yield pid, Figure(name, result.resolved.unit, value, is_peak)


def _list_value(result: Result) -> list[str]:
    """Return the attribute that was asked for in place of the source's own."""
    value = result.resolved.request.value
    return [] if value is None else [value]


def _find_figure(emits: Mapping[str, Mapping[str, Any]]) -> tuple[float, bool] | None:
    """Find what stands for a series: its count's value or a summary's total, else the largest of its readings."""
    for emit, name, is_peak in (("count", "value", False), ("summary", "total", False), ("summary", "max", True)):
        value = emits.get(emit, {}).get(name)
        if value is not None:
            return value, is_peak
    return None


def _parse_process(key: Any) -> int | None:
    """Return the number in a key of a process, `<pid namespace>:<pid>`."""
    number = str(key).rpartition(":")[2]
    return int(number) if number.isdigit() else None


def _iter_tracks(result: Result, has_content: bool) -> Iterator[Track]:
    """Yield each series' values over time, where they were asked for."""
    for series in _iter_shown(result, has_content):
        found = series.emits.get("timeline", {}).get("points", ())
        points = [(when, value) for when, value in found if value is not None]
        if points:
            label = render_series(series.key, series.labels if has_content else {})
            yield Track(result.resolved.entry.id, label, result.resolved.unit, points)
