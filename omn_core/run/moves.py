"""A request moved onto a cheaper mechanism while it is measured: the new one counts before the old one stops."""

from __future__ import annotations

import time

import attrs

from omn_core.errors import Refused, RunFailed
from omn_core.model.batch import Batch
from omn_core.model.collector import BoundTarget
from omn_core.model.request import RequestWindow
from omn_core.model.resolved import ResolvedRequest
from omn_core.plugins import Registry
from omn_core.run.measurement import Measurement, make_measurement


@attrs.frozen
class Move:
    """A move that was made: from which mechanism and mode onto which, and from when to when both counted."""

    left: ResolvedRequest
    taken: ResolvedRequest
    started_ns: int
    ended_ns: int

    def describe(self, opened_ns: int) -> str:
        """Return the sentence of it, its instant told from the opening of the run."""
        left, taken = self.left, self.taken
        both = f"both counted for {(self.ended_ns - self.started_ns) / 1e6:.3g} ms"
        at = f"{(self.started_ns - opened_ns) / 1e9:.3g} s into the run"
        if left.mode == taken.mode:
            return f"the budget moved it from {left.backend.id} to {taken.backend.id} {at}; {both}"
        through = left.backend.id
        if through != taken.backend.id:
            through += f" and {taken.backend.id}"
        return (
            f"the budget moved it from mode {left.mode} to {taken.mode} {at}, two modes end to end on {through}; {both}"
        )


def move(
    measurement: Measurement, rung: ResolvedRequest, bound: BoundTarget, registry: Registry, opened_ns: int
) -> tuple[Measurement, Move, Batch | None]:
    """Begin a request anew on a rung, and end it where it was: returns what goes on, and the closing read of the other.

    Events of the time between are in both, which is bounded and told, where a gap would hide what nobody counted.
    Raises Refused or RunFailed where the rung cannot begin: then nothing has changed.
    """
    started_ns = time.monotonic_ns()
    taken = _begin(measurement, rung, bound, registry, started_ns - opened_ns)
    taken.open(time.monotonic_ns())
    batch = measurement.read_at_close()
    ended_ns = time.monotonic_ns()
    measurement.close(ended_ns)
    measurement.stop()
    made = Move(measurement.resolved, taken.resolved, started_ns, ended_ns)
    taken.before, taken.moved = measurement, made.describe(opened_ns)
    return taken, made, batch


def _begin(
    measurement: Measurement, rung: ResolvedRequest, bound: BoundTarget, registry: Registry, offset_ns: int
) -> Measurement:
    """Prepare and attach a rung's collector to a target that runs already, launched or not."""
    window = RequestWindow(start_ns=max(offset_ns, 1))
    begun = attrs.evolve(rung, request=attrs.evolve(rung.request, window=window))
    taken = make_measurement(measurement.index, begun, registry, measurement.context)
    try:
        taken.prepare()
        taken.attach(bound)
    except (Refused, RunFailed):
        taken.stop()
        raise
    taken.resolved = attrs.evolve(rung, request=attrs.evolve(rung.request, window=measurement.resolved.request.window))
    taken.held_bytes = measurement.held_bytes
    return taken
