"""What the machine did, as a recording keeps it. Times are CLOCK_MONOTONIC nanoseconds; None is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs


@attrs.frozen
class Figure:
    """What a source said of one process over its life in the window; `is_peak`: the largest of its readings, no sum."""

    name: str
    unit: str
    value: float
    is_peak: bool = False


@attrs.define
class Life:
    """A process of the harness's tree.

    `start_ns` is None for one that was there before anybody looked, `end_ns` for one that outlived the window. `name`
    is what it called itself, kept with content alone: a program's name may be of what a person wrote. `span_id` is the
    span of its TRACEPARENT. `is_recorder` marks what a hook of the recorder's own ran.
    """

    pid: int
    parent_pid: int | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    name: str | None = None
    span_id: str | None = None
    code: int | None = None
    signal: str | None = None
    is_recorder: bool = False
    figures: list[Figure] = attrs.field(factory=list)


@attrs.define
class Track:
    """One series' values over time."""

    source: str
    label: str
    unit: str
    points: list[tuple[int, float]]


@attrs.define
class Machine:
    """A run of omn's sources beside a recording. `lives` is None where nobody told of processes, for a reason said."""

    opened_ns: int
    closed_ns: int
    sources: list[str] = attrs.field(factory=list)
    said: list[str] = attrs.field(factory=list)
    lives: list[Life] | None = None
    tracks: list[Track] = attrs.field(factory=list)

    def add_life(self, life: Life) -> None:
        """Add a process."""
        if self.lives is None:
            self.lives = []
        self.lives.append(life)

    def iter_plain(self) -> Iterable[dict[str, Any]]:
        """Yield it as plain values, a part at a time, the run itself first."""
        whole = attrs.asdict(attrs.evolve(self, tracks=[], lives=None if self.lives is None else []))
        yield {"run": whole}
        yield from ({"life": attrs.asdict(life)} for life in self.lives or ())
        yield from ({"track": attrs.asdict(track)} for track in self.tracks)


def make_machine(parts: Iterable[Mapping[str, Any]]) -> Machine | None:
    """Return what `iter_plain` yielded as it was, None where there is nothing: parts that were lost are missing."""
    machine: Machine | None = None
    for part in parts:
        if "run" in part:
            machine = Machine(**part["run"])
        elif machine is not None and "life" in part:
            fields = {**part["life"], "figures": [Figure(**figure) for figure in part["life"]["figures"]]}
            machine.add_life(Life(**fields))
        elif machine is not None and "track" in part:
            points = [(when, value) for when, value in part["track"]["points"]]
            machine.tracks.append(Track(**{**part["track"], "points": points}))
    return machine
