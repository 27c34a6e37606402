"""What one request answered on both sides: the results to compare, or why they cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from omn_core.diff.model import Refusal
from omn_core.diff.sides import Plain, Run, Side

OF_ONE_RUN = frozenset({"task", "proc", "sock", "req", "wakee", "waker", "pid", "tid", "fd"})
"""Keys and attributes whose values are numbers that name nothing in another run."""

_ALIKE_WITHIN = 0.01
"""How much windows may differ in length and still be taken for equal."""


@attrs.frozen(eq=False)
class Asked:
    """One request that both sides answer: its results on each, one a run, and the runs they are of."""

    source: str
    a: tuple[Plain, ...]
    b: tuple[Plain, ...]
    runs_a: tuple[Run, ...]
    runs_b: tuple[Run, ...]

    @property
    def first(self) -> Plain:
        """A's first result, which the others are like in everything that is compared."""
        return self.a[0]

    @property
    def sides(self) -> tuple[tuple[Plain, ...], tuple[Plain, ...]]:
        """The results of A and of B."""
        return self.a, self.b

    @property
    def is_per_second(self) -> bool:
        """Whether totals are to be divided by their windows: those neither are the program's own nor equally long."""
        if all(run.ran.ended_by == "program" and run.ran.argv for run in (*self.runs_a, *self.runs_b)):
            return False
        lengths = [get_seconds(one) for one in (*self.a, *self.b)]
        return max(lengths) > min(lengths) * (1 + _ALIKE_WITHIN)


def get_seconds(result: Plain) -> float:
    """Return the length of a result's window, in seconds, never zero."""
    window = result["window"]
    length_ns: int = window["closed_ns"] - window["opened_ns"]
    return max(length_ns, 1) / 1e9


def pair_requests(a: Side, b: Side) -> tuple[list[Asked], list[Refusal]]:
    """Return what both sides asked alike, and what cannot be compared with the reason."""
    asked: list[Asked] = []
    refused: list[Refusal] = []
    questions = dict.fromkeys(question for run in (*a.runs, *b.runs) for question in run.results)
    for source, number in questions:
        what = source if number == 1 else f"{source} (request {number} of it)"
        lacking = [_name(side, run) for side in (a, b) for run in side.runs if (source, number) not in run.results]
        if lacking:
            refused.append(Refusal(what, f"{' and '.join(dict.fromkeys(lacking))} did not answer it"))
            continue
        of_a, of_b = (tuple(run.results[source, number] for run in side.runs) for side in (a, b))
        reason = _find_difference(_QUESTION, of_a, of_b)
        if reason is not None:
            refused.append(Refusal(what, reason))
            continue
        asked.append(Asked(what, of_a, of_b, a.runs, b.runs))
    return asked, refused


def _name(side: Side, run: Run) -> str:
    return side.name if len(side.runs) == 1 else f"a run of {side.name} ({run.ran.place})"


def get_walk(result: Plain) -> str:
    """Return how the stacks of a result were walked."""
    chosen: Any = result.get("stacks") or {}
    return str(chosen.get("walk") or result["request"].get("stack") or "the default")


_Ways = Sequence[tuple[str, Callable[[Plain], Any]]]

_QUESTION: _Ways = (
    ("mode", lambda result: result["request"]["mode"]),
    ("value", lambda result: result["value"]),
    ("unit", lambda result: result["unit"]),
    ("keys", lambda result: ", ".join(result["request"]["keys"]) or "none"),
    ("filter", lambda result: result["request"].get("filter") or "none"),
    ("scope", lambda result: result["scope"]),
)
"""In what two requests of one source are different questions."""

_MEANS: _Ways = (
    ("mechanism", lambda result: result["backend"]),
    ("rate asked for", lambda result: result["request"].get("hz") or "the default"),
    ("period", lambda result: result["request"].get("period") or "the default"),
    ("walk of stacks", get_walk),
    ("place of names", lambda result: result["request"].get("symbols") or "the default"),
)
"""In what one question may have been answered in different ways."""


def _find_difference(ways: _Ways, a: Sequence[Plain], b: Sequence[Plain]) -> str | None:
    return next(_iter_differences(ways, a, b), None)


def _iter_differences(ways: _Ways, a: Sequence[Plain], b: Sequence[Plain]) -> Iterator[str]:
    for what, read in ways:
        of_a, of_b = (list(dict.fromkeys(str(read(one)) for one in side)) for side in (a, b))
        if len({*of_a, *of_b}) > 1:
            yield f"the {what} is {' and '.join(of_a)} in A and {' and '.join(of_b)} in B"


def list_facts(asked: Asked) -> list[str]:
    """Say what is not the same about how both sides were measured, and what either lost."""
    facts = list(_iter_differences(_MEANS, *asked.sides))
    for name, side in zip("AB", asked.sides, strict=True):
        facts += _say_losses(name, side)
    degraded: dict[str, list[str]] = {}
    for name, side in zip("AB", asked.sides, strict=True):
        for said in dict.fromkeys(said for one in side for said in one["degraded"]):
            degraded.setdefault(said, []).append(name)
    return facts + [f"{' and '.join(names)}: {said}" for said, names in degraded.items()]


_BOUNDING = ("dropped", "throttled", "failed_reads", "skipped")


def _say_losses(name: str, side: Sequence[Plain]) -> list[str]:
    totals = {kind: sum(one["losses"].get(kind) or 0 for one in side) for kind in _BOUNDING}
    lost = ", ".join(f"{count} {kind}" for kind, count in totals.items() if count)
    return [f"{name} lost {lost}: its figures are lower bounds"] if lost else []


def count_samples(result: Plain) -> int:
    """Return how many events the answers of a result are made of: those that passed the filter."""
    account: Any = result.get("filter")
    return int(result["events_seen"] if account is None else account["kept"])
