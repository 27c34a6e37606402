"""Stored runs made by hand, as plain values in files: what the tests of comparisons read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Plain = dict[str, Any]
Frame = tuple[str, str | None, str | None]
"""A frame's label, its object, and what named it."""

PERIOD_NS = 1_000_000
ENVIRONMENT: Mapping[str, Any] = {"kernel": "6.18.0", "kernel_version": "#1", "arch": "x86_64", "boot_id": "one"}


def name(label: str, holder: str | None = "/usr/bin/prog", by: str | None = "symtab") -> Frame:
    """Make a frame that has a name."""
    return label, holder, by


def make_stack_answer(
    stacks: Mapping[tuple[Frame, ...], int], builds: Mapping[str, Sequence[str]] | None = None
) -> Plain:
    """Make a stack emit's answer: so many samples of a millisecond of each stack, its innermost frame first."""
    rows = [
        {
            "frames": [frame[0] for frame in frames],
            "weight": samples * PERIOD_NS,
            "count": samples,
            "named_by": [frame[2] for frame in frames],
            "objects": [frame[1] for frame in frames],
        }
        for frames, samples in stacks.items()
    ]
    return {"lower_bound": False, "rows": rows, "builds": dict(builds or {})}


def make_plain_result(emits: Mapping[str, Plain], **changes: Any) -> Plain:
    """Make a result of one series without a key. Fields of the request and of the result may be given."""
    events = sum(row["count"] for row in emits.get("stack", {}).get("rows", []))
    request = {"source": "cpu.profile", "mode": "sample", "emits": list(emits), "keys": [], "filter": None}
    request |= {field: changes.pop(field) for field in list(changes) if field in (*request, "hz", "stack", "symbols")}
    result = {
        "request": request,
        "backend": "pmu:sw",
        "scope": "process",
        "unit": "ns",
        "value": "oncpu_ns",
        "adds_up": True,
        "window": {"opened_ns": 0, "closed_ns": 1_000_000_000},
        "events_seen": events,
        "filter": None,
        "losses": {},
        "degraded": [],
        "caveats": ["it is time on a cpu"],
        "failure": None,
        "series": [{"key": {}, "labels": {}, "emits": dict(emits)}],
    }
    return result | changes


def make_plain_run(*results: Plain, **changes: Any) -> Plain:
    """Make a run of a program that ended by itself."""
    run = {
        "omn": {"version": "0.1.0", "schema": 1, "plugins": {"omn": "0.1.0"}},
        "environment": dict(ENVIRONMENT),
        "window": {"clock": "CLOCK_MONOTONIC", "opened_ns": 0, "closed_ns": 1_000_000_000},
        "ended_by": "program",
        "program": {"argv": ["prog"], "pid": 7},
        "results": list(results),
        "cost": {},
    }
    return run | changes


def write_plain_run(folder: Path, run: Plain) -> Path:
    """Write a run where `omn -o` would, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(run))
    return folder


def make_profile(stacks: Mapping[tuple[Frame, ...], int], builds: Mapping[str, Sequence[str]] | None = None) -> Plain:
    """Make a run of one profile."""
    return make_plain_run(make_plain_result({"stack": make_stack_answer(stacks, builds)}))
