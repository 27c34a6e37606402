"""What a figure is about stands beside it: the scope of every event and result, and the fields a filter may name."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


@pytest.mark.spec("EVT-4", "EVT-1")
@pytest.mark.parametrize(
    ("words", "scope"),
    [
        (("mem.rss", "--interval", "20ms", "--", "sleep", "0.1"), "process"),
        (("cpu.util", "--system", "--interval", "20ms", "-d", "60ms"), "system"),
        (("cpu.util", "--cpu", "0", "--interval", "20ms", "-d", "60ms"), "cpu"),
    ],
)
def test_every_event_and_result_carries_its_scope(omn: Any, words: tuple[str, ...], scope: str) -> None:
    """A process's figure and the machine's are told apart in the file, by each event and by the result."""
    ran = omn(words[0], "-e", "raw", "--format", "json", *words[1:])
    assert ran.code == 0, ran.stderr
    assert ran.result["scope"] == scope
    assert ran.result["raw"]
    for event in ran.result["raw"]:
        assert (event["scope"], event["source"], event["backend"]) == (scope, words[0], ran.result["backend"])
        assert ran.result["window"]["opened_ns"] <= event["ts_ns"] <= ran.result["window"]["closed_ns"]
        assert event["ts_err_ns"] >= 1


@pytest.mark.spec("EVT-4")
def test_a_thread_is_its_own_scope(omn: Any, sleeper: subprocess.Popen[bytes]) -> None:
    """`--tid` reports the thread, `--pid` the process, of one and the same number."""
    for flag, scope in (("--pid", "process"), ("--tid", "thread")):
        ran = omn("cpu.util", flag, str(sleeper.pid), "--interval", "20ms", "-d", "60ms", "--format", "json")
        assert ran.code == 0, ran.stderr
        assert ran.result["scope"] == scope


@pytest.mark.spec("REQ-18", "REQ-8")
def test_kind_is_a_rows_kind_and_never_the_sources(omn: Any) -> None:
    """`kind` may be asked of every source; where no row has one nothing matches, and the field is named as absent."""
    ran = omn(
        "mem.rss", "--interval", "20ms", "--filter", "kind == 'mem.rss'", "--format", "json", "--", "sleep", "0.1"
    )
    assert ran.code == 0, ran.stderr
    account = ran.result["filter"]
    assert (account["kept"], account["absent_fields"]) == (0, ["kind"])
    assert account["dropped"] == ran.result["events_seen"] >= 1
    assert ran.result["series"][0]["emits"]["summary"]["count"] == 0


@pytest.mark.spec("REQ-18")
def test_ppid_filters_where_events_carry_it(omn: Any) -> None:
    """A launched program's parent is omn: a filter on its number keeps every event, on another none."""
    words = ("mem.faults", "-m", "poll", "-e", "summary", "-e", "raw", "--interval", "20ms", "--format", "json")
    seen = omn(*words, "--", "sleep", "0.1").result
    parents = {event["attrs"]["ppid"] for event in seen["raw"]}
    assert len(parents) == 1
    kept = omn(*words, "--filter", "ppid > 0", "--", "sleep", "0.1").result
    none = omn(*words, "--filter", "ppid == 0", "--", "sleep", "0.1").result
    assert (kept["filter"]["dropped"], none["filter"]["kept"]) == (0, 0)


@pytest.mark.spec("REQ-7", "REQ-8")
def test_a_filter_keeps_what_it_says_and_accounts_for_the_rest(omn: Any) -> None:
    """Kept and dropped add up to the events seen, and the figures are over those that were kept."""
    program = "import time; time.sleep(0.15); area = bytearray(64 << 20); time.sleep(0.15)"
    ran = omn(
        "mem.rss",
        "--interval",
        "10ms",
        "--filter",
        "value >= 50000000",
        "-e",
        "summary",
        "--format",
        "json",
        "--",
        "python3",
        "-c",
        program,
    )
    assert ran.code == 0, ran.stderr
    account = ran.result["filter"]
    summary = ran.result["series"][0]["emits"]["summary"]
    assert account["kept"] + account["dropped"] == ran.result["events_seen"]
    assert account["kept"] == summary["count"] > 0
    assert account["dropped"] > 0
    assert summary["min"] >= 50_000_000
    assert account["applied_by"] == "userspace"
