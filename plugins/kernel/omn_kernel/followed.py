"""Following the processes of a target: one thing read of each, together, those that end left out from then on."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs

from omn_core.api import BoundTarget, MachineRefused, ProcessHandle, RunContext, TargetGone
from omn_kernel.counters import Misses
from omn_kernel.polled import raise_descriptor_limit, restore_descriptor_limit
from omn_kernel.procfs.process import ProcessFile, ProcessGone, find_process_key, has_ended

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
    """One process that is followed, or one thread of it: `task` is its own number, `key` names it across containers.

    `came` says that it was not there at the first reading, so that what it counted is all of the window.
    """

    handle: ProcessHandle
    tid: int | None
    key: str | None
    source: Source[Row]
    came: bool = False

    @property
    def pid(self) -> int:
        """The process's number."""
        return self.handle.pid

    @property
    def task(self) -> int:
        """The thread's number where one thread is followed, else the process's."""
        return self.handle.pid if self.tid is None else self.tid


@attrs.frozen(eq=False)
class Together:
    """Several processes whose figures are one row: what they have in common names it, and nothing else does."""

    pid: int | None = None
    tid: int | None = None
    task: int | None = None
    key: str | None = None
    comm: bytes | None = None
    parent: int | None = None


Whose = Followed[Any] | Together
"""What a row is about."""


@attrs.frozen(eq=False)
class Round(Generic[Row]):
    """One reading of every process: whose each row is, the row, and when it was read.

    `inherited` are processes that ended, each with whoever waited for it, in the order of their ends: what the one had
    counted is in the other's counters from then on. `lost` ended too, and nobody is known to have waited for them.
    """

    processes: Sequence[Any]
    rows: Sequence[Row]
    read_ns: Sequence[int]
    inherited: Sequence[tuple[Followed[Row], Followed[Row]]] = ()
    lost: Sequence[Followed[Row]] = ()


def follow_named(
    target: BoundTarget, context: RunContext, open_source: Callable[[int, int | None], Source[Row]]
) -> list[Followed[Row]]:
    """Open what is read of each process that a target names, or of its thread."""
    return [
        Followed(handle, target.tid, find_process_key(context.sysroot, handle.pid), open_source(handle.pid, target.tid))
        for handle in target.processes
    ]


def read_source(source: Source[Row], misses: Misses) -> Row | None:
    """Read what is read of a process, None where that failed although it runs, which is counted.

    Raises ProcessGone at its end, and where it has nothing left to be read.
    """
    try:
        row = source.read()
    except MachineRefused as refused:
        misses.note(str(refused))
        return None
    except OSError as error:
        misses.note(f"{source.name}: {error.strerror}")
        return None
    if row is None:
        raise ProcessGone(f"nothing is left of {source.name} to be read")
    return row


class FollowedProcesses(Generic[Row]):
    """The processes that a target names, or the thread.

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
        self.named: Sequence[Followed[Row]] = follow_named(target, context, open_source)
        self.processes = list(self.named)
        self._exited: frozenset[Followed[Row]] = frozenset()

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
                row = read_source(process.source, self._misses)
            except ProcessGone:
                gone.append(process)
                continue
            if row is None:
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
        for process in left:
            process.source.close()
        self.processes = [process for process in self.processes if process not in left]

    def close(self) -> None:
        """Let go of every process."""
        for process in self.processes:
            process.source.close()
        restore_descriptor_limit(self._descriptor_limit)
