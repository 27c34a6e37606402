"""Collectors whose events a library writes inside the program that omn launches, and in all that this starts."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    Drain,
    InTargetCost,
    Losses,
    MachineRefused,
    ResolvedRequest,
    RunContext,
)
from omn_kernel.bpf.columns import Columns
from omn_kernel.injected.library import get_library, put_first, refuse_program, refuse_reader
from omn_kernel.injected.memory import MOST_FRAMES, Bytes, Part
from omn_kernel.injected.programs import InjectedPrograms
from omn_kernel.injected.sharing import MemoryReader, open_memory
from omn_kernel.injected.stacks import number_stacks
from omn_kernel.symbols.choice import choose_sources

Array = npt.NDArray[Any]
MOST_RECORDS = 1 << 19
"""How many records a run holds: what comes after them is dropped and counted."""


class RecordFormat(Protocol):
    """What a library writes: records one after another, which have fields `ns` and `stack` when they are read."""

    def count(self, content: Bytes) -> int:
        """Count them."""

    def measure(self, content: Bytes, count: int) -> int:
        """Return how many bytes the first so many are."""

    def read(self, parts: Sequence[Part]) -> tuple[Array, Array]:
        """Return the records of some parts, and of each whose it is: `process`, `thread`, `name`."""


class InjectedCollector(CollectorBase, ABC):
    """A collector of records which a library writes, as `format` says.

    `library` is its name, `variable` the one of the environment that names its memory to it, `function` one that it
    stands before; `remedy` is what to do where a program would not load it.
    """

    library: str
    variable: bytes
    function: str
    remedy: str
    format: RecordFormat
    is_ending = False
    """Whether the last reading is over, so that what comes now may be after the window."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open the memory that the library is to write to."""
        super().prepare(resolved, context)
        self._sources = choose_sources(resolved.request.symbols)
        self.reads_between = resolved.mode == "count"
        self._parts: list[Part] = []
        self._held = self._delivered = self._overrun = self._lost = self._copied = 0
        self._drains: list[Drain] = []
        self._closed_ns = 0
        self._programs: InjectedPrograms | None = None
        self._memory: MemoryReader | None = open_memory(context, self.library, self._find_depth())

    def _find_depth(self) -> int:
        """Find how many frames of a stack are asked for: of the innermost function's and file's keys one is enough."""
        if self.resolved.walk is None or self.resolved.walk.walk == "none":
            return 0
        shown = {emit.name for emit in self.resolved.emits} & {"stack", "raw"}
        asked = self.resolved.stack_keys
        return MOST_FRAMES if shown or "within" in asked else min(len(asked), 1)

    @property
    def memory(self) -> MemoryReader:
        """The memory, from `prepare` until `stop`."""
        if self._memory is None:
            raise RuntimeError("the library's memory was let go")
        return self._memory

    def change_environment(self, environment: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Have the program's loader load the library, and the library find its memory. Raises MachineRefused.

        Another request of this run may have done so already.
        """
        path = os.fsencode(self.memory.path)
        if environment.get(self.variable) == path:
            return {}
        if self.variable in environment:
            raise MachineRefused(
                f"the program would be started with {self.variable.decode()} already: another omn has the library",
                self.remedy,
            )
        return {**put_first(get_library(self.library), environment), self.variable: path}

    def attach(self, target: BoundTarget) -> None:
        """Begin to record. Raises MachineRefused where the program would not load the library, or not find it."""
        refuse_program(target.target.value[0], dict(os.environ), self.function, self.remedy)
        refuse_reader(target.processes[0].pid, self.remedy)
        self._programs = InjectedPrograms(
            target, self.context, self._sources, is_held=self.resolved.begins_held(target)
        )
        self.memory.turn(is_on=True)

    def sample(self, now_ns: int) -> Batch:
        """Take what was written. Nothing is decoded yet."""
        self._closed_ns = now_ns
        self._take()
        return Batch.empty()

    def _take(self) -> None:
        for part in self.memory.drain():
            self._copied += self.format.count(part.content)
            self.keep(part)
        if self.memory.lost > self._lost:
            self._drains.append(Drain(self.context.clock(), self.memory.lost - self._lost))
            self._lost = self.memory.lost
        if self._programs is not None:
            self._programs.take(self.memory.read_processes())

    def keep(self, part: Part) -> None:
        """Keep what came until the close, as far as the bound goes. A subclass that adds it up keeps less of it."""
        came = self.format.count(part.content)
        kept = min(came, MOST_RECORDS - self._held)
        self._overrun += came - kept
        if kept:
            self._held += kept
            self._parts.append(part if kept == came else part.cut(self.format.measure(part.content, kept)))

    def stop(self) -> Batch:
        """End recording, and return what was written until then."""
        if self._memory is None:
            return Batch.empty()
        try:
            self.memory.turn(is_on=False)
            self.is_ending = True
            if self._programs is None:
                return Batch.empty()
            self._take()
            self._programs.finish(self.context.clock())
            return self._make_events()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._cost = InTargetCost(*self.memory.settle_cost(self._copied + self._lost))
        self._lost_stacks = self.memory.lost_stacks
        self.memory.close()
        self._memory = None
        if self._programs is not None:
            self._programs.close()

    def _make_events(self) -> Batch:
        records, owners = self.read_records()
        self._parts = []
        order = np.argsort(records["ns"], kind="stable")
        columns, chosen = self.make_columns(records[order], owners[order], self._closed_ns)
        self._delivered = len(columns) if columns.weight is None else int(columns.weight.sum())
        return Batch(
            records["ns"][order][chosen].astype(np.int64),
            None,
            columns.keys,
            columns.attributes,
            columns.weight,
            columns.stack,
        )

    def read_records(self) -> tuple[Array, Array]:
        """Return what was kept, and of each record whose it is."""
        return self.format.read(self._parts)

    @abstractmethod
    def make_columns(self, records: Array, owners: Array, closed_ns: int) -> tuple[Columns, Array]:
        """Make columns of what of the records is an event, and say which they are.

        `owners` say of each which process wrote it (`process`, a place in `programs`), and which thread (`thread`, and
        what it called itself, `name`). What is of `closed_ns` and later is after the window.
        """

    @property
    def programs(self) -> InjectedPrograms:
        """The programs that the library came into."""
        if self._programs is None:
            raise RuntimeError("there is no program before attach")
        return self._programs

    def number_stacks(self, records: Array, owners: Array) -> npt.NDArray[np.int64] | None:
        """Return the number of each record's stack in the run's table, None where no stacks are asked for."""
        if self._find_depth() == 0:
            return None
        pids = self.programs.processes["pid"][owners["process"]].astype(np.int64)
        stacks, symboliser = self.memory.read_stacks(), self.programs.symboliser
        return number_stacks(stacks, records, owners["process"], pids, symboliser, self.context.stacks)

    @property
    def hears_all(self) -> bool:  # type: ignore[override]
        """Whether it tells of every occurrence: where the library came into any program."""
        return self._programs is not None and self._programs.were_seen

    def losses(self) -> Losses:
        """Return the records that found no room, in the memory or here."""
        reasons = []
        if self._lost:
            reasons.append("records found no room in the memory that the library writes to")
        if self._overrun:
            reasons.append(f"records came when {MOST_RECORDS}, the bound of one run, were held")
        return Losses(dropped=self._lost + self._overrun, reasons=tuple(reasons), drains=tuple(self._drains))

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, and what looking for names came to."""
        return {"delivered": self._delivered, **self._sources.count()}

    def facts(self) -> tuple[str, ...]:
        """Say which programs the library was in, and where names came from."""
        own = () if self._programs is None else self._programs.facts()
        return (*own, *self._sources.describe())

    def degradations(self) -> tuple[str, ...]:
        """Say whom the library was not in, and which stacks found no room."""
        said = [f"{self._lost_stacks} stacks found no room and are not there"] if self._lost_stacks else []
        return (*(() if self._programs is None else self._programs.degradations()), *said)

    def in_target_cost(self) -> InTargetCost:
        """Return what the library spent inside the programs, by the calls of it that it timed."""
        if self._memory is None:
            return self._cost
        return InTargetCost(*self._memory.compute_cost(self._copied + self._lost))

    def one_time_cpu_ns(self) -> int:
        """Return what fetching symbols cost."""
        return self._sources.cpu_ns

    def failure(self) -> str | None:
        """Return why nobody can answer: the library was nowhere, or may have ended the program itself."""
        return None if self._programs is None else self._programs.find_failure()
