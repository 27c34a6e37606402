"""One collector driven through its life by hand: prepared, attached, sampled when the test says, stopped.

The runner does the same with every collector of a session and a clock of its own; a test of one collector wants to
decide what happens between two readings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from omn_core.errors import RequestError
from omn_core.filter import compile_filter
from omn_core.model.batch import Batch, Names
from omn_core.model.catalog import Entry
from omn_core.model.collector import BoundTarget, Collector, ProcessHandle, RunContext
from omn_core.model.request import EmitSpec, Request
from omn_core.model.resolved import Link, LinkState, ResolvedRequest
from omn_core.model.rows import CollectorRow
from omn_core.model.target import Target


def resolve_onto(
    entry: Entry,
    backend: str,
    target: Target,
    *,
    mode: str | None = None,
    keys: Sequence[str] = (),
    value: str | None = None,
    interval_ns: int = 1_000_000_000,
    predicate: str | None = None,
) -> ResolvedRequest:
    """Return a request on a backend of its entry, without asking the machine whether it has what that needs.

    The mode is the entry's first where none is named, the emit its first of that mode; `predicate` is its filter.
    Raises RequestError where the chain has no such backend.
    """
    chosen = entry.backend(backend)
    if chosen is None:
        raise RequestError(f"{entry.id} has no backend {backend!r}")
    mode = mode or entry.modes_of(chosen)[0]
    emits = (EmitSpec(entry.emits_of(chosen, mode)[0]),)
    value = value or entry.value
    return ResolvedRequest(
        Request(entry.id, mode, emits, tuple(keys), target, predicate),
        entry,
        chosen,
        CollectorRow(entry.id, backend, ""),
        (Link(backend, LinkState.SELECTED),),
        mode,
        emits,
        target,
        value,
        entry.unit_of(chosen, value),
        entry.adds_up(mode),
        interval_ns if mode == "poll" else None,
        filter_fields=() if predicate is None else compile_filter(predicate).fields,
    )


def bind_processes(*pids: int, launched: bool = False) -> BoundTarget:
    """Return a process target bound as the runner binds it: each process held by a pidfd, which `release` closes."""
    handles = tuple(ProcessHandle(pid, os.pidfd_open(pid), read_start_ticks(pid)) for pid in pids)
    target = Target("launch", ("program",)) if launched else Target("pid", pids)
    return BoundTarget(target, "process", handles, launched)


def bind_thread(pid: int, tid: int) -> BoundTarget:
    """Return a thread target, its process held."""
    handle = ProcessHandle(pid, os.pidfd_open(pid), read_start_ticks(pid))
    return BoundTarget(Target("tid", tid), "thread", (handle,), tid=tid)


def bind_machine(*cpus: int) -> BoundTarget:
    """Return the machine as a target, or some of its cpus where any are named."""
    if cpus:
        return BoundTarget(Target("cpu", cpus), "cpu", cpus=cpus)
    return BoundTarget(Target("system"), "system")


def release(target: BoundTarget) -> None:
    """Close the pidfds of a bound target."""
    for handle in target.processes:
        if handle.pidfd is not None:
            os.close(handle.pidfd)


def read_start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot: field 22 of /proc/<pid>/stat (proc(5))."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


class Driver:
    """A collector between `prepare` and `stop`. Entering prepares and attaches it, leaving stops it.

    Every batch it returns is kept; `rows` reads them as plain values.
    """

    def __init__(
        self,
        collector: Collector,
        resolved: ResolvedRequest,
        target: BoundTarget,
        *,
        sysroot: str = "/",
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.collector = collector
        self.names = Names()
        self._resolved = resolved
        self._target = target
        self._context = RunContext(self.names, clock, sysroot)
        self._batches: list[Batch] = []

    def sample(self) -> list[dict[str, Any]]:
        """Read once and return the reading's rows."""
        batch = self.collector.sample(self._context.clock())
        self._batches.append(batch)
        return list_rows(batch)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every row so far."""
        return [row for batch in self._batches for row in list_rows(batch)]

    def __enter__(self) -> Self:
        self.collector.prepare(self._resolved, self._context)
        self.collector.attach(self._target)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._batches.append(self.collector.stop())
        release(self._target)


def list_rows(batch: Batch) -> list[dict[str, Any]]:
    """Return a batch's rows as dicts of keys and attributes, those that a row lacks left out, with `ts_ns`."""
    columns: Mapping[str, list[Any]] = {
        name: column.to_list() for name, column in {**batch.keys, **batch.attributes}.items()
    }
    return [
        {"ts_ns": stamp, **{name: values[index] for name, values in columns.items() if values[index] is not None}}
        for index, stamp in enumerate(batch.ts.tolist())
    ]
