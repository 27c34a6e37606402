"""A family made for budgets: one source whose mechanisms cost omn what their names say, and count what they count."""

from __future__ import annotations

import time

import numpy as np

from omn_core.api import Batch, BoundTarget, CollectorBase, InTargetCost, MachineRefused

MS = 1_000_000
SLOW_NS = 100 * MS

CATALOG = """
- id: lab.work
  title: what is made up here
  unit: count
  value: made
  modes: [poll, trace, sample]
  emits: {poll: [summary, raw], trace: [topk, rate, raw, timeline], sample: [topk, rate, raw]}
  targets: {launch: yes, pid: yes, system: yes}
  attributes: {made: count, comm: text}
  keys: [task]
  filter_fields: [comm]
  determinism: high
  chain:
    - {id: dear, requires: ["lab:available"], cost: extreme, modes: [poll, trace]}
    - {id: fails, requires: ["lab:available"], cost: high, modes: [poll], degrades: it is refused when it begins}
    - {id: bytes, requires: ["lab:available"], cost: med, modes: [poll], unit: bytes, degrades: it counts bytes}
    - {id: gone, requires: ["lab:missing"], cost: med, modes: [poll], degrades: it is not here}
    - {id: cheap, requires: ["lab:available"], cost: low, modes: [poll], degrades: it is a guess}
    - {id: heavy, requires: ["lab:available"], cost: med, modes: [sample], degrades: it weighs nothing}
    - {id: light, requires: ["lab:available"], cost: med, modes: [sample], degrades: it is a sample}
"""

PLUGIN = """
from omn_core.api import AVAILABLE, CollectorRow, Probe, RequirementRow, State, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog():
    return "omn_lab"


@hookimpl
def omn_requirements():
    return [RequirementRow("lab", "omn_lab.plugin:probe", r"[a-z]+", "lab:available")]


@hookimpl
def omn_collectors():
    made = {"dear": "Dear", "fails": "Fails", "bytes": "Cheap", "gone": "Cheap", "cheap": "Cheap", "heavy": "Light"}
    rows = [CollectorRow("lab.work", backend, f"budget_subjects:{name}") for backend, name in made.items()]
    return [*rows, CollectorRow("lab.work", "light", "budget_subjects:Light", weighs_samples=True)]


def probe(need, context):
    return AVAILABLE if need.argument == "available" else Probe(State(need.argument), "it is not")
"""


def burn(length_ns: int) -> None:
    """Use so much of this thread's cpu."""
    end_ns = time.thread_time_ns() + length_ns
    while time.thread_time_ns() < end_ns:
        pass


class Cheap(CollectorBase):
    """Counts ticks of the clock since its last reading, each a millisecond, and costs next to nothing."""

    burns_ns = 0
    ticks_ns = MS
    weight: int | None = None

    def attach(self, target: BoundTarget) -> None:
        self.begun = self.seen = self.context.clock() // self.ticks_ns

    def sample(self, now_ns: int) -> Batch:
        burn(self.burns_ns)
        last, self.seen = self.seen, self.context.clock() // self.ticks_ns
        ticks = np.arange(last + 1, self.seen + 1, dtype=np.int64) * self.ticks_ns
        if not len(ticks):
            return Batch.empty()
        batch = Batch.of_reading((0, 1), self.context.names, {}, {"made": [1] * len(ticks)})
        weight = None if self.weight is None else np.full(len(ticks), self.weight, np.int64)
        return Batch(ticks, None, batch.keys, batch.attributes, weight)


class Dear(Cheap):
    """The same, for 20 ms of omn's cpu a reading."""

    burns_ns = 20 * MS


class Fails(Cheap):
    """Is refused when it is to begin."""

    def attach(self, target: BoundTarget) -> None:
        raise MachineRefused("it will not begin")


class Light(Cheap):
    """Samples each tenth tick, and says that each stands for ten."""

    ticks_ns = 10 * MS
    weight = 10


class Inside(Cheap):
    """Spends inside its target as many nanoseconds as pass, and nothing of omn's."""

    def attach(self, target: BoundTarget) -> None:
        super().attach(target)
        self.attached_ns = self.context.clock()

    def in_target_cost(self) -> InTargetCost:
        return InTargetCost(self.context.clock() - self.attached_ns)


class LetsGoSlowly(Cheap):
    """Takes `SLOW_NS` of omn's cpu to stop, and as long for its facts."""

    def stop(self) -> Batch:
        burn(SLOW_NS)
        return super().stop()

    def facts(self) -> tuple[str, ...]:
        burn(SLOW_NS)
        return ("it took its time",)


class Unknown(Cheap):
    """Spends inside its target what nothing accounts for."""

    def in_target_cost(self) -> InTargetCost:
        return InTargetCost(None)
