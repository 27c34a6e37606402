"""The two sides of a comparison: every run that was stored in some places, repeats taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from omn_core.diff.model import Machines, Ran
from omn_core.errors import RequestError
from omn_core.stored import check_run, read_run

Plain = Mapping[str, Any]


@attrs.frozen(eq=False)
class Run:
    """One run: what it is called by, its document, and its results that did not fail, by the question they answer.

    A question is a source and which of the requests of that source it is.
    """

    ran: Ran
    document: Plain
    results: Mapping[tuple[str, int], Plain]


@attrs.frozen(eq=False)
class Side:
    """The runs of one side, `notes` saying which of those stored are left out and why."""

    name: str
    runs: tuple[Run, ...]
    notes: tuple[str, ...]


def read_side(name: str, places: Sequence[Path]) -> Side:
    """Read the runs of a side. Raises RequestError for a place that holds none, and where no run is whole."""
    runs: list[Run] = []
    notes: list[str] = []
    for place in places:
        document = read_run(place)
        for repeat, one in _iter_repeats(document, place):
            if str(one.get("ended_by") or "").startswith("SIG"):
                notes.append(f"{name}: {_call(place, repeat)} was cut short by {one['ended_by']}, and is left out")
            else:
                runs.append(_make_run(place, repeat, one))
    if not runs:
        raise RequestError(f"{', '.join(repr(str(place)) for place in places)} holds no run that was not cut short")
    return Side(name, tuple(runs), tuple(notes))


def _iter_repeats(document: Plain, place: Path) -> list[tuple[int | None, Plain]]:
    repeats = document.get("repeats") or []
    if not isinstance(repeats, list):
        raise RequestError(f"{str(place)!r} is not a run that omn wrote: its field 'repeats' is no list")
    for number, one in enumerate(repeats, 1):
        check_run(one, place, f"repeat {number}")
    return [(number, one) for number, one in enumerate(repeats, 1)] or [(None, document)]


def _make_run(place: Path, repeat: int | None, document: Plain) -> Run:
    program, window = document["program"], document["window"]
    try:
        argv = None if program is None else tuple(map(str, program["argv"]))
        length_ns = int(window["closed_ns"]) - int(window["opened_ns"])
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(f"{str(place)!r} is not a run that omn wrote: {error} of it cannot be read") from error
    ran = Ran(str(place), repeat, argv, length_ns, document.get("ended_by"))
    results: dict[tuple[str, int], Plain] = {}
    asked: dict[str, int] = {}
    for result in document["results"]:
        source = str(result["request"].get("source"))
        asked[source] = asked.get(source, 0) + 1
        if result.get("failure") is None:
            results[source, asked[source]] = result
    return Run(ran, document, results)


def _call(place: Path, repeat: int | None) -> str:
    return str(place) if repeat is None else f"run {repeat} of {place}"


_NEVER_SAID = ("boot_id", "clock")


def compare_machines(a: Side, b: Side) -> tuple[Machines, ...]:
    """Return the fields of the environments that are not the same in every run, and the plugins' versions."""
    tables = [[_flatten(run) for run in side.runs] for side in (a, b)]
    names = dict.fromkeys(name for side in tables for run in side for name in run if name not in _NEVER_SAID)
    found = []
    for name in names:
        of_a, of_b = (tuple(dict.fromkeys(repr(run.get(name)) for run in side)) for side in tables)
        if {*of_a} != {*of_b} or len(of_a) > 1:
            values = [_unique([run.get(name) for run in side]) for side in tables]
            found.append(Machines(name, *values))
    return tuple(found)


def _unique(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple({repr(value): value for value in values}.values())


def _flatten(run: Run) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    waiting = [(name, value) for name, value in run.document["environment"].items()]
    versions = run.document["omn"].get("plugins")
    waiting += [("plugins", versions)]
    while waiting:
        name, value = waiting.pop(0)
        if isinstance(value, dict):
            waiting[:0] = [(f"{name}.{part}", inner) for part, inner in value.items()]
        else:
            flat[name] = value
    return flat
