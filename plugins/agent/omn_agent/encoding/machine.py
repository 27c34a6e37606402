"""What the machine did, drawn beside the captures: processes, counters, and what stands between them and the truth.

Its category is of omn's own: a reader that knows the contract alone passes it over.
"""

from __future__ import annotations

from typing import Any

from omn_export.perfetto.identity import compute_uuid
from omn_export.perfetto.sequence import Sequence
from omn_export.perfetto.tracks import Counter, CounterUnit, Group, Merge

from omn_agent.lanes import assign_lanes
from omn_agent.machine.model import Life, Machine, Track

CATEGORY = "omn.machine"
_NO_MORE_LANES = 1 << 30
_UNITS = {"ns": CounterUnit.TIME_NS, "bytes": CounterUnit.SIZE_BYTES, "count": CounterUnit.COUNT}


def add_machine(sequence: Sequence, machine: Machine) -> None:
    """Draw a run of omn's sources on tracks of its own."""
    root = sequence.declare(Group(compute_uuid(CATEGORY), "Machine", merge=Merge.NONE))
    begin = {
        "kind": "machine",
        "sources": machine.sources or None,
        "has_processes": machine.lives is not None,
        "reservations": machine.said or None,
    }
    sequence.begin(root, machine.opened_ns, "machine", categories=[CATEGORY], annotations=begin)
    sequence.end(root, machine.closed_ns)
    # Those that were there before the window stand in it from its opening.
    lives = sorted(machine.lives or (), key=lambda life: life.start_ns or machine.opened_ns)
    placed, _ = assign_lanes([_Drawn(life, machine) for life in lives], _NO_MORE_LANES)
    for lane, drawn in placed:
        group = Group(compute_uuid(CATEGORY, "process", lane), "Processes", root, Merge.BY_NAME)
        _add_life(sequence, sequence.declare(group), drawn)
    for track in machine.tracks:
        _add_track(sequence, root, track)


class _Drawn:
    """A process within the window."""

    def __init__(self, life: Life, machine: Machine) -> None:
        self.life = life
        self.start_ns: int = machine.opened_ns if life.start_ns is None else life.start_ns
        self.end_ns: int = max(self.start_ns, machine.closed_ns if life.end_ns is None else life.end_ns)


def _add_life(sequence: Sequence, track: int, drawn: _Drawn) -> None:
    life = drawn.life
    begin: dict[str, Any] = {
        "kind": "process",
        "pid": life.pid,
        "parent_pid": life.parent_pid,
        "name": life.name,
        "parent_span": life.span_id,
        "started_before_capture": True if life.start_ns is None else None,
        "is_recorder": life.is_recorder or None,
    }
    end = {
        "exit_code": life.code,
        "exit_signal": life.signal,
        "incomplete": True if life.end_ns is None else None,
        "figures": {figure.name: figure.value for figure in life.figures} or None,
        "units": {figure.name: figure.unit for figure in life.figures} or None,
        "peaks": [figure.name for figure in life.figures if figure.is_peak] or None,
    }
    sequence.begin(track, drawn.start_ns, life.name or "process", categories=[CATEGORY], annotations=begin)
    sequence.end(track, drawn.end_ns, annotations=end)


def _add_track(sequence: Sequence, root: int, track: Track) -> None:
    known = _UNITS.get(track.unit)
    uuid = compute_uuid(CATEGORY, "counter", track.source, track.label)
    name = " ".join(filter(None, (track.source, track.label)))
    counter = sequence.declare(Counter(uuid, name, root, known, None if known else track.unit, track.unit))
    for when_ns, value in track.points:
        sequence.count(counter, when_ns, value)
