"""Following the processes of a target: one thing read of each, together, those that end left out from then on."""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs
import numpy as np

from omn_core.api import BoundTarget, Column, MachineRefused, ProcessHandle, RunContext, TargetGone
from omn_kernel.counters import Accounts, Growth, Misses
from omn_kernel.polled import raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.polling import PolledCollector
from omn_kernel.procfs.process import ProcessFile, ProcessGone, find_comm, find_parent, find_process_key, has_ended

Row = TypeVar("Row")
Row_co = TypeVar("Row_co", covariant=True)


class Source(Protocol[Row_co]):
    """What is read of one process at each tick; `name` is what a failed read is counted under."""

    name: str

    def read(self) -> Row_co | None:
        """Read once. Raises ProcessGone at its end; None says that it has nothing left to be read, which is one too."""

    def close(self) -> None:
        """Let go of it."""


class ParsedFile(Generic[Row]):
    """A file of a process, and the pure function that makes a row of its bytes."""

    def __init__(self, name: str, file: ProcessFile, parse: Callable[[bytes], Row | None]) -> None:
        self.name = name
        self._file = file
        self._parse = parse

    def read(self) -> Row | None:
        """Read and parse the file."""
        return self._parse(self._file.read())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


@attrs.frozen(eq=False)
class Followed(Generic[Row]):
    """One process that is followed, or one thread of it: `task` is its own number, `key` names it across containers."""

    handle: ProcessHandle
    tid: int | None
    key: str | None
    source: Source[Row]

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.handle.pid

    @property
    def task(self) -> int:
        """The thread's number where one thread is followed, else the process's."""
        return self.handle.pid if self.tid is None else self.tid


@attrs.frozen(eq=False)
class Round(Generic[Row]):
    """One reading of every process: whose each row is, the row, and when it was read."""

    processes: Sequence[Followed[Row]]
    rows: Sequence[Row]
    read_ns: Sequence[int]


class FollowedProcesses(Generic[Row]):
    """The processes of a target.

    With `reads_zombies` a process that has exited is read once more, for its last words, and followed no longer. One
    that is gone when its turn comes is handed to `on_gone`.
    """

    def __init__(
        self,
        target: BoundTarget,
        context: RunContext,
        misses: Misses,
        open_source: Callable[[int, int | None], Source[Row]],
        on_gone: Callable[[Followed[Row]], None],
        *,
        reads_zombies: bool = False,
    ) -> None:
        self._context = context
        self._misses = misses
        self._on_gone = on_gone
        self._reads_zombies = reads_zombies
        self._descriptor_limit = raise_descriptor_limit(len(target.processes))
        self.processes = [
            Followed(
                handle,
                target.tid,
                find_process_key(context.sysroot, handle.pid),
                open_source(handle.pid, target.tid),
            )
            for handle in target.processes
        ]
        self._exited: frozenset[Followed[Row]] = frozenset()
        self._keys = self._make_keys()

    def _make_keys(self) -> dict[str, Column]:
        names = self._context.names
        keys = {"task": Column.of([process.task for process in self.processes], names)}
        if any(process.key is not None for process in self.processes):
            keys["proc"] = Column.of([process.key for process in self.processes], names)
        return keys

    def read(self) -> Round[Row]:
        """Read every process. Raises TargetGone when the last one has ended.

        A read that failed although its process runs is counted and leaves that process out of this round.
        """
        self._forget(self._exited)
        # Asked before the reading: what is read of a process that has exited is final.
        self._exited = self._find_exited()
        rows: list[Row] = []
        read: list[Followed[Row]] = []
        read_ns: list[int] = []
        gone: list[Followed[Row]] = []
        for process in self.processes:
            try:
                row = process.source.read()
            except ProcessGone:
                row = None
            except (OSError, MachineRefused) as error:
                self._misses.note(
                    str(error) if isinstance(error, MachineRefused) else f"{process.source.name}: {error.strerror}"
                )
                continue
            if row is None:
                gone.append(process)
                continue
            rows.append(row)
            read.append(process)
            read_ns.append(self._context.clock())
        for process in gone:
            self._on_gone(process)
        self._forget(gone)
        if not self.processes:
            raise TargetGone
        return Round(read, rows, read_ns)

    def _find_exited(self) -> frozenset[Followed[Row]]:
        if not self._reads_zombies:
            return frozenset()
        poller = select.poll()
        for process in self.processes:
            if process.handle.pidfd is not None:
                poller.register(process.handle.pidfd, select.POLLIN)
        exited = {descriptor for descriptor, _ in poller.poll(0)}
        return frozenset(process for process in self.processes if self._has_exited(process, exited))

    def _has_exited(self, process: Followed[Row], exited: set[int]) -> bool:
        if process.handle.pidfd is not None:
            return process.handle.pidfd in exited
        return has_ended(self._context.sysroot, process.pid, process.tid)

    def _forget(self, ended: Sequence[Followed[Row]] | frozenset[Followed[Row]]) -> None:
        """Follow some processes no longer."""
        if not ended:
            return
        left = frozenset(ended)
        index = [place for place, process in enumerate(self.processes) if process not in left]
        for process in left:
            process.source.close()
        self.processes = [self.processes[place] for place in index]
        self._keys = {name: column.select(np.array(index, np.int64)) for name, column in self._keys.items()}

    def keys_of(self, processes: Sequence[Followed[Row]]) -> dict[str, Column]:
        """Return the key columns of some of the processes, one row each in the order given; one may come often."""
        if processes == self.processes:
            return self._keys
        places = {process: place for place, process in enumerate(self.processes)}
        index = np.array([places[process] for process in processes], np.int64)
        return {name: column.select(index) for name, column in self._keys.items()}

    def close(self) -> None:
        """Let go of every process."""
        for process in self.processes:
            process.source.close()
        restore_descriptor_limit(self._descriptor_limit)


class ProcessCollector(PolledCollector[Round[Row]], ABC):
    """A collector of each process of the target: a subclass opens what it reads of one, and makes rows of a round."""

    reads_zombies = False

    @abstractmethod
    def open_source(self, pid: int, tid: int | None) -> Source[Row]:
        """Open what is read of a process, or of one of its threads."""

    def open_files(self, target: BoundTarget) -> None:
        """Follow the target's processes."""
        self._wants = {name: self.resolved.shows(name) for name in ("comm", "ppid")}
        self.followed: FollowedProcesses[Row] = self.hold(
            FollowedProcesses(
                target,
                self.context,
                self.misses,
                self.open_source,
                self.note_gone,
                reads_zombies=self.reads_zombies,
            )
        )

    def read(self) -> Round[Row]:
        """Read every process. Raises TargetGone when none is left."""
        return self.followed.read()

    def note_gone(self, process: Followed[Row]) -> None:
        """Do nothing: a process that ended has nothing more to be measured."""

    def identify(self, processes: Sequence[Followed[Row]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what names the rows of some processes: the keys, and the pid with, where it can show, comm and ppid.

        Both are the process's own at this instant, None where it ended meanwhile.
        """
        named: dict[str, Any] = {"pid": [process.pid for process in processes]}
        sysroot = self.context.sysroot
        once = dict.fromkeys(processes)
        if self._wants["comm"]:
            comms = {process: find_comm(sysroot, process.pid, process.tid) for process in once}
            named["comm"] = [comms[process] for process in processes]
        if self._wants["ppid"]:
            parents = {process: find_parent(sysroot, process.pid) for process in once}
            named["ppid"] = [parents[process] for process in processes]
        return self.followed.keys_of(processes), named


class ProcessCounterCollector(ProcessCollector[Mapping[str, int]], ABC):
    """A collector of counters of each process, read to their last values: a zombie keeps them until it is reaped.

    One that is reaped before that takes its last interval with it, which is counted, and so does a thread at its end:
    nothing keeps its counters.
    """

    reads_zombies = True

    def open_files(self, target: BoundTarget) -> None:
        """Follow the target's processes, each with its account."""
        super().open_files(target)
        self._accounts: Accounts[Followed[Mapping[str, int]]] = Accounts(
            self.misses, lambda process: f"task {process.task}"
        )

    def advance(self, reading: Round[Mapping[str, int]]) -> dict[Followed[Mapping[str, int]], Growth]:
        """Return what the counters of each process grew by since its last reading, over its own interval."""
        readings = zip(reading.processes, reading.rows, reading.read_ns, strict=True)
        grown = {process: self._accounts.advance_one(process, row, at_ns) for process, row, at_ns in readings}
        return {process: growth for process, growth in grown.items() if growth is not None}

    def note_gone(self, process: Followed[Mapping[str, int]]) -> None:
        """Count a process, or a thread, that was read before and is gone since."""
        if process not in self._accounts:
            return
        if process.tid is None:
            self.misses.note("a process was reaped by its parent before its last reading")
        else:
            self.misses.note("the thread ended between two readings, and its last interval is in no row")
