"""A comparison of two sides of stored runs: A, usually what was before, and B."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

MORE, LESS = "more", "less"
"""What a verdict says of B beside A."""


@attrs.frozen
class Figure:
    """One side's figure of a row: each run's `values`, in the unit of its table.

    `noises` are what counting alone makes the variance of each value, None where nobody knows; `step` is what one
    event more would add, `events` how many events a run had at the mean, None where the figure is not of events.
    `is_bound` says that a loss makes it a lower bound. `share` is its share of the side's whole, None where it has
    none.
    """

    values: tuple[float, ...]
    noises: tuple[float, ...] | None = None
    step: float = 0.0
    events: float | None = None
    share: float | None = None
    is_bound: bool = False

    @property
    def mean(self) -> float:
        """The mean over the side's runs."""
        return sum(self.values) / len(self.values)


@attrs.frozen
class Row:
    """One thing that both sides have, and what it was on each.

    `difference` is B less A and `error` its standard error; `p` is the chance that runs of one program differ so much,
    None where nothing says how much they would. `verdict` is None where they do not differ for certain, and `flag` says
    why none was sought. `is_recovered` says that a stack was not walked to it but it was inferred.
    """

    name: Mapping[str, Any]
    a: Figure
    b: Figure
    difference: float
    error: float | None = None
    p: float | None = None
    verdict: str | None = None
    flag: str | None = None
    is_recovered: bool = False

    @property
    def relative(self) -> float | None:
        """The difference as a share of A's figure, None where that is zero."""
        return self.difference / self.a.mean if self.a.mean else None


@attrs.frozen
class Apart:
    """Rows that are not the same thing on both sides, summed by what they lack.

    `lacks` says what, `remedy` what would name them. The figures are None of a side that has none; `rows` counts
    those of both sides, and `examples` names the heaviest with each side's figure.
    """

    lacks: str
    remedy: str | None
    a: float | None
    b: float | None
    share_a: float | None
    share_b: float | None
    rows: int
    examples: tuple[tuple[str, float | None, float | None], ...] = ()


@attrs.frozen
class Table:
    """One figure of one answer, compared row by row.

    `figure` says which: `self` or `inclusive` of stacks, else the answer's own name for it. `confidence` says what the
    verdicts stand on, `between runs`, `within one run` or `nothing`. `is_per_second` says that the figures are divided
    by the length of their windows.
    """

    figure: str
    unit: str
    confidence: str
    rows: tuple[Row, ...]
    is_per_second: bool = False
    apart: tuple[Apart, ...] = ()
    key: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Answer:
    """One emit of one request on both sides."""

    source: str
    mode: str
    emit: str
    value: str
    unit: str
    tables: tuple[Table, ...]
    facts: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()


@attrs.frozen
class Refusal:
    """What was not compared, and why in a clause."""

    what: str
    reason: str


@attrs.frozen
class Ran:
    """One run of a side: where it is stored, which repeat of it, what it launched, how long its window was."""

    place: str
    repeat: int | None
    argv: tuple[str, ...] | None
    window_ns: int
    ended_by: str | None


@attrs.frozen
class Machines:
    """One field of the environments that is not the same in every run: each side's values."""

    field: str
    a: tuple[Any, ...]
    b: tuple[Any, ...]


@attrs.frozen
class Comparison:
    """Everything that two sides were found to differ by."""

    a: tuple[Ran, ...]
    b: tuple[Ran, ...]
    machines: tuple[Machines, ...]
    answers: tuple[Answer, ...]
    refused: tuple[Refusal, ...]
    notes: tuple[str, ...] = ()
