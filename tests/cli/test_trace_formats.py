"""Runs of this machine in the formats of other tools, and what those cannot carry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

pytestmark = pytest.mark.spec("FMT-1")

ASKED = ("mem.rss", "-e", "timeline", "-e", "summary", "-e", "raw", "--interval", "20ms")


def test_a_run_is_a_trace_of_chromes(omn: Any) -> None:
    """The readings are counters and instants at their times, inside the window that the answer closes."""
    ran = omn(*ASKED, "--format", "chrome", "--", "sleep", "0.2")
    assert ran.code == 0, ran.stderr
    events = json.loads(ran.stdout)["traceEvents"]
    counted = [(event["ts"], event["args"]["bytes"]) for event in events if event["ph"] == "C"]
    instants = [event for event in events if event["ph"] == "i" and event["name"] == "mem.rss"]
    raw = [(event["ts"], event["args"]["attrs"]["rss_bytes"]) for event in instants]
    (summary,) = [event for event in events if event["name"] == "summary"]
    assert counted == raw
    assert len(counted) == summary["args"]["count"] > 1
    assert max(value for _, value in counted) == summary["args"]["max"]
    assert all(when <= summary["ts"] for when, _ in counted)


def test_a_run_is_a_trace_of_perfettos(omn: Any) -> None:
    """The same readings, decoded by Perfetto's own protocol buffers."""
    ran = omn(*ASKED, "--format", "perfetto", "--", "sleep", "0.2")
    assert ran.code == 0, ran.stderr
    events = [packet.track_event for packet in protos.Trace.FromString(ran.stdout).packet]
    values = [event.counter_value for event in events if event.type == protos.TrackEvent.TYPE_COUNTER]
    assert len(values) > 1
    assert min(values) > 0


@pytest.mark.parametrize("name", ["folded", "speedscope", "pprof", "html"])
def test_what_a_format_cannot_carry_is_refused_before_anything_runs(omn: Any, name: str) -> None:
    """A summary is no stack: exit 2, with what the format carries, and the program is not started."""
    ran = omn("mem.rss", "-e", "summary", "--format", name, "--", "sh", "-c", "echo started >&2")
    assert ran.code == 2
    assert f"the format {name} cannot carry summary" in ran.stderr
    assert "it carries stack" in ran.stderr
    assert "started" not in ran.stderr
