"""omn's own answers where the figure is at no one place of them. The argument is one result of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
