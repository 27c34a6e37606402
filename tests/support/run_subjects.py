"""Small collectors, a registry of them and sessions over them: what the tests of the run are run on.

Executed as a program it carries out one run in a process of its own and prints what came of it:
`python run_subjects.py '{"launch": [...], "requests": [{"collector": "Threads"}]}'`.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import termios
from collections.abc import Mapping
from typing import Any

import pluggy

from omn_core import hookspecs
from omn_core.api import (
    Backend,
    Batch,
    BoundTarget,
    CollectorBase,
    CollectorRow,
    Document,
    EmitRow,
    EmitSpec,
    Entry,
    Request,
    ResolvedRequest,
    Target,
    TargetGone,
    TargetRow,
)
from omn_core.model.request import RequestWindow, Session
from omn_core.model.resolved import Link, LinkState, ResolvedSession
from omn_core.plugins import Registry
from omn_core.run.linux import find_stat
from omn_core.run.runner import RunOptions, run


class Threads(CollectorBase):
    """A gauge: how many threads the target has, with its state; gone when there is no such process any more."""

    reads_at_open = True

    def attach(self, target: BoundTarget) -> None:
        self.target = target

    def sample(self, now_ns: int) -> Batch:
        before = self.context.clock()
        stats = [find_stat(process.pid) for process in self.target.processes]
        alive = [stat for stat in stats if stat is not None]
        if not alive:
            raise TargetGone
        attributes = {
            "value": [stat.threads for stat in alive],
            "state": [stat.state for stat in alive],
            "comm": [stat.comm for stat in alive],
        }
        span = (before, self.context.clock())
        return Batch.of_reading(span, self.context.names, {"task": [stat.pid for stat in alive]}, attributes)


class Elapsed(CollectorBase):
    """A counter: nanoseconds since the reading before, the first since the attach."""

    def attach(self, target: BoundTarget) -> None:
        self.last_ns = self.context.clock()

    def sample(self, now_ns: int) -> Batch:
        passed, self.last_ns = now_ns - self.last_ns, now_ns
        return Batch.of_reading((now_ns, now_ns), self.context.names, {}, {"value": [passed]})


class Vanishing(CollectorBase):
    """A counter of what is gone at the close: it ends the program once it was read three times."""

    reads_between = True

    def attach(self, target: BoundTarget) -> None:
        self.pid = target.processes[0].pid
        self.readings = 0

    def sample(self, now_ns: int) -> Batch:
        self.readings += 1
        if self.readings == 3:
            os.kill(self.pid, signal.SIGTERM)
        return Batch.of_reading((now_ns, now_ns), self.context.names, {}, {"value": [1]})


def make_entry(collector: str) -> Entry:
    """Return a catalog entry for a collector, serving everything the run has to tell apart."""
    modes = ("poll", "count", "snapshot", "trace")
    return Entry(
        id=f"test.{collector.lower()}",
        title="a source for tests",
        unit="count",
        value="value",
        modes=modes,
        emits=dict.fromkeys(modes, ("raw", "summary", "count", "topk")),
        targets=dict.fromkeys(("launch", "pid", "tid", "system")),
        attributes={"value": "count", "state": "text", "comm": "text"},
        keys=("task",),
        filter_fields=("state", "comm"),
        determinism="exact",
        chain=(Backend("test", (), "free"),),
    )


def resolve(
    collector: str,
    target: Target,
    *,
    module: str = "run_subjects",
    mode: str = "poll",
    interval_ns: int | None = 20_000_000,
    window: RequestWindow | None = None,
    predicate: str | None = None,
    several: bool = False,
) -> ResolvedRequest:
    """Return a request resolved onto a collector, by the name of its class and its module."""
    entry = make_entry(collector)
    emits = (EmitSpec("raw"),)
    row = CollectorRow(entry.id, "test", f"{module}:{collector}", several_processes=several)
    request = Request(entry.id, mode, emits, target=target, filter=predicate, window=window)
    return ResolvedRequest(
        request=request,
        entry=entry,
        backend=entry.chain[0],
        collector=row,
        chain=(Link("test", LinkState.SELECTED),),
        mode=mode,
        emits=emits,
        target=target,
        value="value",
        unit="count",
        adds_up=False,
        interval_ns=interval_ns if mode == "poll" else None,
        filter_applied_by=None if predicate is None else "userspace",
    )


def make_session(
    *requests: ResolvedRequest, launch: tuple[str, ...] | None = None, duration_ns: int | None = None, **more: Any
) -> ResolvedSession:
    """Return a resolved session of some requests."""
    session = Session(tuple(one.request for one in requests), launch=launch, duration_ns=duration_ns, **more)
    return ResolvedSession(session, requests, {})


def make_registry() -> Registry:
    """Return a registry that holds the core's targets and the emits that the tests ask for."""
    manager = pluggy.PluginManager("omn")
    manager.add_hookspecs(hookspecs)
    binding = "omn_core.run.binding"
    kinds = ("launch", "pid", "tid", "system")
    return Registry(
        [],
        manager,
        targets={kind: TargetRow(kind, f"{binding}:bind_{kind}") for kind in kinds},
        emits={"raw": EmitRow("raw", "omn_core.emit.raw:RAW", lists_events=True)},
    )


def events(document: Document, index: int = 0) -> list[dict[str, Any]]:
    """Return the raw events of a result as dicts, with their stamps."""
    raw = document.results[index].raw
    assert raw is not None
    columns = {**raw.batch.keys, **raw.batch.attributes}
    lists = {name: column.to_list() for name, column in columns.items()}
    stamps = raw.batch.ts.tolist()
    return [{"ts": stamp, **{name: lists[name][row] for name in lists}} for row, stamp in enumerate(stamps)]


class Announces(Threads):
    """Says on stdout that it reads, at its first reading."""

    is_first = True

    def sample(self, now_ns: int) -> Batch:
        if self.is_first:
            print("reading", flush=True)
        self.is_first = False
        return super().sample(now_ns)


class HoldsTheProgram(Threads):
    """Never returns from its attach: it writes the held program's number to stdout and waits for ever."""

    def attach(self, target: BoundTarget) -> None:
        print(target.processes[0].pid, flush=True)
        signal.pause()


class StopsForEver(Announces):
    """Never returns from its stop: it says so on stdout and waits."""

    def stop(self) -> Batch:
        print("stopping", flush=True)
        while True:
            signal.pause()


def main(asked: Mapping[str, Any]) -> None:
    """Carry out the run that was asked for and write what came of it as one JSON object, to a file or to stderr."""
    if asked.get("tty"):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    launch = tuple(asked["launch"]) if asked.get("launch") else None
    target = Target("launch", launch) if launch else Target("pid", tuple(asked["pid"]))
    requests = [resolve(one.pop("collector"), target, **one) for one in asked["requests"]]
    session = make_session(*requests, launch=launch, duration_ns=asked.get("duration_ns"))
    options = RunOptions(become_subreaper=asked.get("subreaper", True), started_cpu_ns=0)
    document = run(session, make_registry(), options)
    program = document.program
    told = {
        "exit": None if program is None else program.exit,
        "pid": None if program is None else program.pid,
        "notes": list(document.notes),
        "adopted": [[one.pid, one.comm, one.ended] for one in document.adopted],
        "events": [events(document, index) for index in range(len(requests))],
        "failures": [result.failure for result in document.results],
        "target_ns": document.cost.target_ns,
        "is_foreground": os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp(),
    }
    path = asked.get("answer")
    with open(path, "w") if path else os.fdopen(os.dup(2), "w") as stream:
        json.dump(told, stream)


if __name__ == "__main__":
    sys.modules["run_subjects"] = sys.modules["__main__"]
    main(json.loads(sys.argv[1]))
