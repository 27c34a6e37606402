"""Collectors that note what is done to them, and one for each way of breaking the contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ClassVar

import attrs
from run_subjects import make_registry, make_session, resolve

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    Document,
    InTargetCost,
    Losses,
    MachineRefused,
    RunEvent,
    Target,
    TargetGone,
    hookimpl,
)
from omn_core.plugins import PluginRecord, Registry
from omn_core.run.runner import RunOptions, run

MS = 1_000_000
SYSTEM = Target("system")


def launch(*arguments: str) -> Target:
    """Return a launch target."""
    return Target("launch", arguments)


def mine(collector: str, target: Target, **more: Any) -> Any:
    """Return a request resolved onto one of the collectors of this module."""
    return resolve(collector, target, module=__name__, **more)


class Diary(CollectorBase):
    """Notes every call it gets, all instances in one list."""

    calls: ClassVar[list[tuple[str, str, int]]] = []
    reads_at_open = True

    def _note(self, call: str) -> None:
        source = self.resolved.request.source
        self.calls.append((source, call, time.monotonic_ns()))

    def prepare(self, resolved: Any, context: Any) -> None:
        super().prepare(resolved, context)
        self._note("prepare")

    def attach(self, target: BoundTarget) -> None:
        self.target = target
        self._note("attach")

    def sample(self, now_ns: int) -> Batch:
        self._note("sample")
        return Batch.of_reading((now_ns, self.context.clock()), self.context.names, {}, {"value": [1]})

    def stop(self) -> Batch:
        self._note("stop")
        return Batch.empty()


class Lends(Diary):
    """Adds a letter to a variable of the program's."""

    def change_environment(self, environment: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        self._note("change_environment")
        return {b"LENT": environment.get(b"LENT", b"") + b"x"}


class Interval(Diary):
    """The same, reading intervals."""

    reads_at_open = False


class RefusesAttach(Diary):
    def attach(self, target: BoundTarget) -> None:
        super().attach(target)
        raise MachineRefused("it will not have this target")


class RaisesInAttach(Diary):
    def attach(self, target: BoundTarget) -> None:
        raise OSError(5, "broken")


class RefusesPrepare(Diary):
    def prepare(self, resolved: Any, context: Any) -> None:
        super().prepare(resolved, context)
        raise MachineRefused("it is not here")


class RaisesInSample(Diary):
    def sample(self, now_ns: int) -> Batch:
        raise ValueError("a bad byte")


class ReturnsNoBatch(Diary):
    def sample(self, now_ns: int) -> Batch:
        return None  # type: ignore[return-value]  # what a plugin may get wrong


class RaisesInEverythingElse(Diary):
    def losses(self) -> Losses:
        raise KeyError("losses")

    def in_target_cost(self) -> InTargetCost:
        raise KeyError("cost")


class CannotSayItsCost(Diary):
    def in_target_cost(self) -> InTargetCost:
        raise KeyError("cost")


class AnswersInOtherKinds(Diary):
    def stop(self) -> Any:
        return None

    def losses(self) -> Any:
        return None

    def facts(self) -> Any:
        return "a fact"

    def fields(self) -> Any:
        return ["births"]


class SaysNoMoment:
    """A collector of the calls alone, which does not say whether it reads at the opening."""

    def __init__(self) -> None:
        self._diary = Interval()
        for name in ("prepare", "attach", "sample", "stop", "losses", "fields", "facts", "degradations"):
            setattr(self, name, getattr(self._diary, name))
        for name in ("row_stamp", "in_target_cost", "failure"):
            setattr(self, name, getattr(self._diary, name))


class Gone(Diary):
    """Finds its target ended when it looks."""

    def sample(self, now_ns: int) -> Batch:
        raise TargetGone


class GoneAfterTwo(Diary):
    reads = 0

    def sample(self, now_ns: int) -> Batch:
        self.reads += 1
        if self.reads > 2:
            raise TargetGone
        return super().sample(now_ns)


class Overruns(Diary):
    """Its second reading lasts over three and a half intervals of 20 ms, on purpose."""

    reads_at_open = False
    reads = 0

    def sample(self, now_ns: int) -> Batch:
        self.reads += 1
        if self.reads == 2:
            time.sleep(0.07)
        return super().sample(now_ns)


class Large(Diary):
    """Each reading is a thousand events."""

    def sample(self, now_ns: int) -> Batch:
        return Batch.of_reading((now_ns, now_ns + 1), self.context.names, {}, {"value": list(range(1000))})


class Fails(Diary):
    def failure(self) -> str:
        return "the program died of the library it was given"

    def facts(self) -> tuple[str, ...]:
        return ("a fact",)

    def fields(self) -> dict[str, int]:
        return {"births": 3}

    def degradations(self) -> tuple[str, ...]:
        return ("a degradation",)

    def losses(self) -> Losses:
        return Losses(failed_reads=2, reasons=("two readings gave nothing",))

    def in_target_cost(self) -> InTargetCost:
        return InTargetCost(1000)


class Stream(Diary):
    """Buffers one event before its window, one inside, one after the close."""

    def attach(self, target: BoundTarget) -> None:
        super().attach(target)
        self.attached_ns = self.context.clock()

    def stop(self) -> Batch:
        super().stop()
        stamps = [self.attached_ns, self.last_ns, self.context.clock()]
        batch = Batch.of_reading((0, 1), self.context.names, {}, {"value": [0, 1, 2]})
        return attrs.evolve(batch, ts=batch.ts * 0 + stamps, ts_err=None)

    def sample(self, now_ns: int) -> Batch:
        self.last_ns = now_ns
        return Batch.empty()


class Drained(Stream):
    def row_stamp(self) -> str:
        return "drain"


def calls(source: str | None = None) -> list[str]:
    """Return the calls that were noted, in order, of one source or of all."""
    return [call for found, call, _ in Diary.calls if source is None or found == source]


def observed(function: Callable[[RunEvent], None]) -> Registry:
    """Return a registry with one more plugin, which observes the run."""
    registry = make_registry()
    plugin = ModuleType("watcher")
    plugin.omn_run_event = hookimpl(function)  # type: ignore[attr-defined]
    registry.manager.register(plugin, "watcher")
    registry.records.append(PluginRecord("watcher", "omn-watcher", "1", module=plugin))
    return registry


def run_all(*requests: Any, **more: Any) -> Document:
    """Carry out a run of some requests as the command line does."""
    return run(make_session(*requests, **more), make_registry(), RunOptions(become_subreaper=True))
