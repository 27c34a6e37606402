"""Where the time went: what responses, tools and scripts cover of a window, each moment once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from omn_agent.reading.captures import ReadCapture
from omn_agent.reading.spans import Span

Interval = tuple[int, int]


@attrs.frozen
class Activity:
    """Nanoseconds that are covered; what no part covers is not said to be waiting.

    `responses_ns` and `tools_ns` are of those alone, `both_ns` of the two at once, `scripts_ns` of scripts with neither
    beside them. None is a part that nobody measured although it was there.
    """

    busy_ns: int
    responses_ns: int | None
    tools_ns: int | None
    both_ns: int | None
    scripts_ns: int | None


def compute_activity(members: Iterable[ReadCapture]) -> Activity | None:
    """Return what finished responses, tools and scripts cover, None where no interval of any was measured.

    Calls of models that a script made are in their script's.
    """
    rows = list(members)
    responses, tools, scripts = (_list_kind(rows, kind) for kind in ("response", "tool", "script"))
    if not (responses or tools or scripts):
        return None
    answering, working = compute_union(responses or ()), compute_union(tools or ())
    covered = compute_union([*(responses or ()), *(tools or ())])
    busy = compute_union([*(responses or ()), *(tools or ()), *(scripts or ())])
    return Activity(
        busy,
        None if responses is None else covered - working,
        None if tools is None else covered - answering,
        None if responses is None or tools is None else answering + working - covered,
        None if scripts is None else busy - covered,
    )


def compute_union(intervals: Iterable[Interval]) -> int:
    """Return the time that some intervals cover, each moment once."""
    covered, until = 0, None
    for start, end in sorted(intervals):
        begin = start if until is None else max(start, until)
        covered += max(end - begin, 0)
        until = end if until is None else max(until, end)
    return covered


def compute_peak(spans: Iterable[Span]) -> int | None:
    """Return how many ran at once at most, None where no interval was measured."""
    edges = [edge for interval in list_intervals(spans) for edge in ((interval[0], 1), (interval[1], -1))]
    running, most = 0, 0
    for _, step in sorted(edges):
        running += step
        most = max(most, running)
    return most if edges else None


def list_intervals(spans: Iterable[Span]) -> list[Interval]:
    """Return the intervals that were measured."""
    return [interval for span in spans if (interval := span.interval) is not None]


def _list_kind(rows: Sequence[ReadCapture], kind: str) -> list[Interval] | None:
    """Return a kind's intervals, None where it was there and nobody measured one."""
    spans = [span for member in rows for span in member.iter_kind(kind)]
    intervals = list_intervals(spans)
    return None if spans and not intervals else intervals
