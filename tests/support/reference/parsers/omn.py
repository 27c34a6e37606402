"""omn's own answers where the figure is at no one place of them. The argument is one result of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference.parsers.tracing import read_histogram
from reference.parsing import Figures


def parse_rows(result: Mapping[str, Any]) -> Figures:
    """Count what was read in the window: `rows`, before any filter."""
    return {"rows": result["events_seen"]}


def parse_object_shares(result: Mapping[str, Any]) -> Figures:
    """Read the shares of a ranking by `object`: by the file's name as far as `.so`."""
    (series,) = result["series"]
    (answer,) = series["emits"].values()
    found: dict[str, float] = {}
    for row in answer["rows"]:
        name = row["key"]["object"].rpartition("/")[2].partition(".so")[0]
        found[name] = found.get(name, 0) + row["share"]
    return found


def parse_idle(result: Mapping[str, Any]) -> Figures:
    """Add up what each cpu idled in every state, in nanoseconds, by the cpu's number."""
    found: dict[str, float] = {}
    for series in result["series"]:
        cpu = str(series["key"]["cpu"])
        found[cpu] = found.get(cpu, 0) + series["emits"]["summary"]["last"]
    return found


def parse_histogram(result: Mapping[str, Any]) -> Figures:
    """Read the one histogram: `count`, and `median`, the lower bound of the bucket that it lies in."""
    (series,) = result["series"]
    buckets = [(one["low"], one["count"]) for one in series["emits"]["hist"]["buckets"]]
    return {name.removeprefix("all."): value for name, value in read_histogram("all", buckets).items()}


def parse_events(result: Mapping[str, Any]) -> Figures:
    """Read how many events a count is of: `events`, whatever their measurement is."""
    (series,) = result["series"]
    return {"events": series["emits"]["count"]["events"]}
