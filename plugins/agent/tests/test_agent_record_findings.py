"""Clocks of a recording, times carried between them, and events given to who knows what they mean."""

from __future__ import annotations

import sys
import time
import types

import attrs
import pytest
from omn_agent.harness import Harness
from omn_agent.importing.session import Session
from omn_agent.recorder import correlate
from omn_agent.recorder.clock import Reading, Timeline, find_boot, read_clocks
from omn_agent.recorder.event import HarnessEvent
from omn_agent.recorder.findings import Findings
from omn_agent.recorder.retime import retime
from omn_agent.recording import Attempt, Compaction, Configuration, ModelCall, Request, Script, Turn, Usage, Workflow
from omn_export.perfetto.tracks import Clock

APPLIED: list[tuple[str, int]] = []


def apply_events(findings: Findings, events: list[HarnessEvent]) -> None:
    """Note what is applied."""
    APPLIED.extend((event.kind, event.stamp_ns) for event in events)


@pytest.fixture
def findings() -> Findings:
    """A recording of a second."""
    return Findings(Harness.CLAUDE, True, Timeline([Reading(1_000, 2_000, 10_000, 7)]), 0, 1_000_000_000)


@pytest.mark.spec("AGT-6")
def test_clocks_are_read_together_and_their_spread_is_their_uncertainty() -> None:
    """The reading lies between two of the same clock, and tells all three for the trace."""
    before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    reading = read_clocks()
    after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert before_ns <= reading.monotonic_ns <= after_ns
    assert 0 < reading.uncertainty_ns <= after_ns - before_ns
    assert reading.make_snapshot().clocks == {
        Clock.MONOTONIC: reading.monotonic_ns,
        Clock.BOOTTIME: reading.boottime_ns,
        Clock.REALTIME: reading.realtime_ns,
    }
    assert find_boot() is not None


@pytest.mark.spec("AGT-6")
def test_a_wall_time_is_carried_by_the_reading_before_it() -> None:
    """A wall clock that was set carries nothing over from before; what was before the first reading goes by it."""
    line = Timeline([Reading(100, 500, 1_000, 3), Reading(200, 600, 5_000, 9)])
    assert [line.compute_monotonic(at) for at in (900, 1_050, 4_999, 5_000, 5_010)] == [0, 150, 4_099, 200, 210]
    assert line.compute_from_boottime(510) == 110
    assert line.uncertainty_ns == 9


def test_every_time_of_a_session_is_carried_and_no_length_of_time_is() -> None:
    """Nothing of a session stays on the old clock: its fields are walked by their names here."""
    session = Session("s")
    session.add_prompt(100, "x")
    session.prompts[0].attempts.append(Attempt(100, 200, [Turn(0, 100, 150)]))
    session.add_response(150, "poppy", Usage(), first_content_ns=5)
    tool = session.add_call(110, "c", "sh", {})
    tool.script = Script("js", model_calls=[ModelCall("classify", 111, 112)])
    tool.preflight_ns, tool.middleware_ns, tool.interrupted_ns, tool.duration_ns = 109, 189, 190, 7
    session.requests.append(Request(None, 120))
    session.compactions.append(Compaction(None, 160))
    session.workflows.append(Workflow("user_bash", 170, 170))
    session.other_usages.append((180, Usage()))
    session.context.append((150, 1))
    session.configurations.append((100, Configuration()))
    session.interruptions.append(190)
    session.note_time(100)
    old = attrs.asdict(session)
    retime(session, lambda ts_ns: ts_ns + 1_000_000)
    moved = _collect(old, attrs.asdict(session))
    assert moved == {1_000_000}
    assert (tool.duration_ns, session.responses[0].first_content_ns) == (7, 5)
    assert (tool.preflight_ns, tool.interrupted_ns) == (1_000_109, 1_000_190)


def _collect(old: object, new: object, name: str = "") -> set[int]:
    """Return by how much every time in a session moved: integers of 100 and more, but for lengths of time."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {step for key in old for step in _collect(old[key], new[key], key)}
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return {step for before, after in zip(old, new, strict=True) for step in _collect(before, after, name)}
    if isinstance(old, int) and isinstance(new, int) and old >= 100:
        return {new - old}
    return set()


def test_events_go_to_who_knows_their_source_by_their_stamps(
    findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source gets its own in the order of their stamps; those of nobody are counted."""
    APPLIED.clear()
    monkeypatch.setattr(correlate, "APPLIERS", {"mine": f"{__name__}:apply_events"})
    monkeypatch.setitem(sys.modules, __name__, types.SimpleNamespace(apply_events=apply_events))
    events = [
        HarnessEvent(Harness.CLAUDE, at, None, kind, {}) for at, kind in ((3, "mine.b"), (1, "mine.a"), (2, "theirs.a"))
    ]
    correlate.apply_events(findings, events)
    assert APPLIED == [("mine.a", 1), ("mine.b", 3)]
    assert findings.health == {"unknown_events": 1}


def test_a_session_that_no_file_told_of_is_added_once(findings: Findings) -> None:
    """Its parent is taken when it is told, and a session is no parent of itself."""
    first = findings.get_session("child")
    assert findings.get_session("child", "main") is first
    assert (first.parent_session, findings.get_session("main", "main").parent_session) == ("main", None)
