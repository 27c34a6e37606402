"""A recording written as one Perfetto trace."""

from __future__ import annotations

from typing import BinaryIO

from omn_export.perfetto.identity import compute_machine_id
from omn_export.perfetto.publish import publish
from omn_export.perfetto.sequence import Sequence

from omn_agent.encoding.activity import add_activity
from omn_agent.encoding.canvas import Canvas
from omn_agent.encoding.capture import add_configurations
from omn_agent.encoding.counters import add_counters
from omn_agent.encoding.machine import add_machine
from omn_agent.encoding.thread import add_thread
from omn_agent.recording import Capture, Recording


def write_recording(stream: BinaryIO, recording: Recording) -> int:
    """Write a recording and return its packets. REALTIME is the trace's clock, so that unrelated boots align."""
    machine_id = None if recording.boot is None else compute_machine_id(recording.boot)
    sequence = Sequence(recording.clock, machine_id)
    alone = _find_alone(recording.captures)
    launches: set[str] = set()
    children = set()
    canvases = [
        Canvas(sequence, recording.harness, capture, index, index in alone)
        for index, capture in enumerate(recording.captures, 1)
    ]
    overflows = [add_activity(canvas, launches) for canvas in canvases]
    for canvas, lost in zip(canvases, overflows, strict=True):
        session = canvas.capture.session_id
        is_linked = session in launches and session not in children and canvas.capture.is_fresh
        if is_linked:
            children.add(session)
        add_thread(canvas, recording, is_linked)
        add_configurations(canvas)
        add_counters(canvas, lost)
    if recording.machine is not None:
        add_machine(sequence, recording.machine)
    return publish(stream, [sequence], recording.clock_snapshots, machine_id=machine_id)


def _find_alone(captures: list[Capture]) -> set[int]:
    """Return which captures (from 1) may draw on their main thread's track.

    Spans of one thread share a track and close one another where they cross: of captures of one thread that overlap
    in time the first has the track, and each other one a Session track of its own.
    """
    taken: dict[tuple[int, int | None, int | None], list[tuple[float, float]]] = {}
    alone = set()
    for index, capture in sorted(enumerate(captures, 1), key=lambda pair: pair[1].start_ns):
        if capture.process is None:
            continue
        key = (capture.process.pid, capture.process.start_ns, capture.process.tid)
        end = float("inf") if capture.end_ns is None else capture.end_ns
        if all(capture.start_ns >= other or end <= start for start, other in taken.get(key, [])):
            taken.setdefault(key, []).append((capture.start_ns, end))
            alone.add(index)
    return alone
