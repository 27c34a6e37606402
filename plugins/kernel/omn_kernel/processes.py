"""Collectors of the processes of a target: what is read of each, whose rows those are, what ended ones leave behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omn_core.api import BoundTarget
from omn_kernel.counters import Accounts, Growth
from omn_kernel.followed import Followed, FollowedProcesses, Round, Row, Source, Together, Whose
from omn_kernel.followed_tree import FollowedTree
from omn_kernel.polling import PolledCollector
from omn_kernel.procfs.process import find_comm, find_parent
from omn_kernel.procfs.task import TaskStat
from omn_kernel.procfs.tree import Member
from omn_kernel.tree_accounts import TreeAccounts

Counters = Mapping[str, int]


class ProcessCollector(PolledCollector[Round[Row]], ABC):
    """A collector of each process that the target names: a subclass opens what it reads of one, and makes the rows."""

    @abstractmethod
    def open_source(self, pid: int, tid: int | None) -> Source[Row]:
        """Open what is read of a process, or of one of its threads."""

    def open_files(self, target: BoundTarget) -> None:
        """Follow the target's processes."""
        self._wants = {name: self.resolved.shows(name) for name in ("comm", "ppid")}
        self.followed: FollowedProcesses[Row] | FollowedTree[Row] = self.hold(self.follow(target))

    def follow(self, target: BoundTarget) -> FollowedProcesses[Row] | FollowedTree[Row]:
        """Follow the processes that the target names, and nobody else."""
        return FollowedProcesses(target, self.context, self.misses, self.open_source, self.note_gone)

    def read(self) -> Round[Row]:
        """Read every process. Raises TargetGone when none is left."""
        return self.followed.read()

    def note_gone(self, process: Followed[Row]) -> None:
        """Do nothing: a process that ended has nothing more to be measured."""

    def identify(self, about: Sequence[Whose]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what names some rows: the keys, and the pid with, where it can show, comm and ppid.

        Both are the process's own at this instant, None where it ended meanwhile; rows of several processes together
        are named by what these have in common.
        """
        keys: dict[str, list[Any]] = {"task": [whose.task for whose in about], "proc": [whose.key for whose in about]}
        named: dict[str, list[Any]] = {"pid": [whose.pid for whose in about]}
        once = dict.fromkeys(about)
        if self._wants["comm"]:
            comms = {whose: self._find_comm(whose) for whose in once}
            named["comm"] = [comms[whose] for whose in about]
        if self._wants["ppid"]:
            parents = {whose: self._find_parent(whose) for whose in once}
            named["ppid"] = [parents[whose] for whose in about]
        if all(isinstance(whose, Together) for whose in once):
            named = {name: column for name, column in named.items() if any(one is not None for one in column)}
        return {name: column for name, column in keys.items() if any(one is not None for one in column)}, named

    def _find_comm(self, whose: Whose) -> bytes | None:
        if isinstance(whose, Together):
            return whose.comm
        stat = self._find_stat(whose)
        return find_comm(self.context.sysroot, whose.pid, whose.tid) if stat is None else stat.comm

    def _find_parent(self, whose: Whose) -> int | None:
        if isinstance(whose, Together):
            return whose.parent
        stat = self._find_stat(whose)
        return find_parent(self.context.sysroot, whose.pid) if stat is None else stat.parent

    def _find_stat(self, process: Followed[Row]) -> TaskStat | None:
        """Find what was read of a process to find its tree, which says what it is called and whose child it is."""
        return self.followed.find_stat(process) if isinstance(self.followed, FollowedTree) else None


class ProcessTreeCollector(ProcessCollector[Row], ABC):
    """A collector of each process of the target and of all that descend from them.

    What the answer does not divide is added up: all of them in one row, or those of one name where names divide.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Follow the target's processes, with what they start unless one thread is the target."""
        self._is_apart = self.tells_apart()
        self._shared = self.list_shared()
        super().open_files(target)

    def list_shared(self) -> list[str]:
        """List what divides the answer and may be the same of several processes."""
        return [name for name in ("comm", "ppid") if self.resolved.is_divided_by(name)]

    def tells_apart(self) -> bool:
        """Tell whether each process has rows of its own whatever it is called: where the answer is divided by it."""
        return any(self.resolved.is_divided_by(name) for name in ("task", "proc", "pid"))

    def follow(self, target: BoundTarget) -> FollowedProcesses[Row] | FollowedTree[Row]:
        """Follow the processes with what they start; a thread alone."""
        if target.tid is not None:
            return super().follow(target)
        return FollowedTree(
            target,
            self.context,
            self.misses,
            self.open_source,
            sysroot=self.find_processes_root(),
            wants_keys=self.resolved.is_divided_by("proc"),
        )

    def find_processes_root(self) -> str:
        """Find the root below which the processes stand that are read: that of the run's other files."""
        return self.context.sysroot

    def read(self) -> Round[Row]:
        """Read every process, and add up what the answer does not tell apart. Raises TargetGone when none is left."""
        reading = super().read()
        if self._is_apart or not reading.rows:
            return reading
        groups = self.group(reading.processes)
        rows = [self._add_places(reading, places) for places in groups.values()]
        return Round(list(groups), rows, [max(reading.read_ns)] * len(rows))

    def _add_places(self, reading: Round[Row], places: Sequence[int]) -> Row:
        rows = [reading.rows[place] for place in places]
        return rows[0] if len(rows) == 1 else self.add_up(rows)

    @abstractmethod
    def add_up(self, rows: Sequence[Row]) -> Row:
        """Return what the rows of several processes are together."""

    def group(self, processes: Sequence[Whose]) -> dict[Whose, list[int]]:
        """Return what rows are about, and the places of the processes that each one holds."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, process in enumerate(processes):
            comm = self._find_comm(process) if "comm" in self._shared else None
            parent = self._find_parent(process) if "ppid" in self._shared else None
            groups.setdefault((comm, parent), []).append(place)
        return {self._name_group(processes, named, places): places for named, places in groups.items()}

    def _name_group(self, processes: Sequence[Whose], named: tuple[Any, ...], places: Sequence[int]) -> Whose:
        """Name what is undivided after the one process that the target names, and a part after what it shares."""
        if self._shared:
            return processes[places[0]] if len(places) == 1 else Together(comm=named[0], parent=named[1])
        return self.followed.named[0] if len(self.followed.named) == 1 else Together()

    def fields(self) -> Mapping[str, int]:
        """Return how many processes were found that the target's started, where there was one."""
        started = self.followed.started if isinstance(self.followed, FollowedTree) else 0
        return {"processes_started": started} if started else {}

    def facts(self) -> tuple[str, ...]:
        """Say how many processes the figures are of, where it is more than the target names."""
        started = self.fields().get("processes_started")
        if not started:
            return ()
        count = len(self.followed.named)
        named, they = ("the process", "it") if count == 1 else (f"the {count} processes", "they")
        return (f"the figures are of {named} and the {started} that {they} started, as far as readings found them",)

    def degradations(self) -> tuple[str, ...]:
        """Say whom of the tree /proc hides from this user."""
        hidden = len(self.followed.tree.hidden) if isinstance(self.followed, FollowedTree) else 0
        return (f"{hidden} processes of the tree are hidden from this user, and in no figure",) if hidden else ()


class ProcessCounterCollector(ProcessTreeCollector[Counters], ABC):
    """A collector of counters of each process, read to their last values: a zombie keeps them until it is reaped.

    What a child counted since its last reading is then in the row of the process that waited for it, so that nothing
    of a tree is lost whose processes wait for their own. What nobody of it waited for is counted as lost, and so is a
    thread's last interval: nothing keeps its counters.
    """

    reads_between = True

    def follow(self, target: BoundTarget) -> FollowedProcesses[Counters] | FollowedTree[Counters]:
        """Follow the processes, each with its account; a thread alone."""
        self._thread: Accounts[Followed[Counters]] = Accounts(self.misses, lambda process: f"task {process.task}")
        self._tree = TreeAccounts(self.misses)
        if target.tid is not None:
            return FollowedProcesses(
                target, self.context, self.misses, self.open_source, self.note_gone, reads_zombies=True
            )
        return FollowedTree(
            target,
            self.context,
            self.misses,
            self.open_source,
            sysroot=self.find_processes_root(),
            complete=self.add_waited,
            wants_keys=self.resolved.is_divided_by("proc"),
        )

    def add_waited(self, member: Member, row: Counters) -> Counters:
        """Return a process's counters with those of children that it waited for; they are in its own already here."""
        return row

    def read(self) -> Round[Counters]:
        """Read every process. Raises TargetGone when none is left."""
        return self.followed.read()

    def add_up(self, rows: Sequence[Counters]) -> Counters:
        """Return the sum of each counter that all have."""
        return {name: sum(row[name] for row in rows) for name in rows[0] if all(name in row for row in rows)}

    def advance(self, reading: Round[Counters]) -> dict[Whose, Growth]:
        """Return what the counters of each process, or of all together, grew by since the last reading."""
        if isinstance(self.followed, FollowedProcesses):
            return dict(self._advance_thread(reading))
        grown = self._tree.advance(reading)
        if self._is_apart:
            return dict(grown.items())
        growths = list(grown.values())
        return {
            whose: self._merge([growths[place] for place in places])
            for whose, places in self.group(list(grown)).items()
        }

    def _merge(self, growths: Sequence[Growth]) -> Growth:
        if len(growths) == 1:
            return growths[0]
        return Growth(self._tree.interval_ns, self.add_up([growth.by for growth in growths]))

    def _advance_thread(self, reading: Round[Counters]) -> Iterable[tuple[Whose, Growth]]:
        for process, row, at_ns in zip(reading.processes, reading.rows, reading.read_ns, strict=True):
            growth = self._thread.advance_one(process, row, at_ns)
            if growth is not None:
                yield process, growth

    def note_gone(self, process: Followed[Counters]) -> None:
        """Count a thread that was read before and is gone since."""
        if process in self._thread:
            self.misses.note("the thread ended between two readings, and its last interval is in no row")
