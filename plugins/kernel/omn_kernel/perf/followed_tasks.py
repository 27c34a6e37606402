"""What tasks are called and what they have mapped, over time: from the records of perf events, and from /proc."""

from __future__ import annotations

from collections.abc import Sequence

from omn_kernel.perf.records import Lost, Mapped, Named, Record, Started
from omn_kernel.perf.task_names import TaskNames
from omn_kernel.procfs.process import find_process_key
from omn_kernel.symbols.choice import NameSources
from omn_kernel.symbols.mappings import Mapping
from omn_kernel.symbols.spaces import AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser


class FollowedTasks:
    """Tasks that are followed through forks, execs, mappings and changes of name, those that were there read first.

    `symboliser` names addresses in them, `names` tells what a task called itself when.
    """

    def __init__(self, sysroot: str, sources: NameSources) -> None:
        self._sysroot = sysroot
        self._spaces = AddressSpaces()
        self.symboliser = Symboliser(self._spaces, sysroot, sources)
        self.names = TaskNames(sysroot)
        self._proc_keys: dict[int, str | None] = {}
        self._late: list[Record] = []
        self.executed: list[Named] = []
        """What was executed, in the order of its time."""

    def follow(self, pid: int, tid: int, now_ns: int) -> None:
        """Read a task at its first sight: its name and, of its process, who it is and what it has mapped."""
        self.names.follow(pid, tid)
        if pid not in self._proc_keys:
            self._proc_keys[pid] = find_process_key(self._sysroot, pid)
            self.symboliser.follow(pid, now_ns)

    def follow_target(self, pids: Sequence[int], now_ns: int, *, is_held: bool) -> None:
        """Read the processes of a target as it is attached to.

        What a launched program that is held at its execve has mapped so far is omn's own memory: it goes with the
        execve, and records tell of all that comes after.
        """
        for pid in pids:
            if is_held:
                self.names.follow(pid, pid)
                self._proc_keys[pid] = find_process_key(self._sysroot, pid)
                self.symboliser.identify(pid)
            else:
                self.follow(pid, pid, now_ns)

    def find_process(self, pid: int) -> str | None:
        """Find the key of a process that was followed, None where it was gone before."""
        return self._proc_keys.get(pid)

    def note(self, others: Sequence[Record], until_ns: int) -> None:
        """Note what tasks did. A ring is read after another, so that what is later than `until_ns` is kept back."""
        waiting = [*self._late, *others]
        self._late = [one for one in waiting if _get_time(one) > until_ns]
        self._note([one for one in waiting if _get_time(one) <= until_ns])

    def note_late(self) -> None:
        """Note what was kept back, when no more comes."""
        self._note(self._late)
        self._late = []

    def _note(self, records: Sequence[Record]) -> None:
        for one in sorted(records, key=_get_time):
            if isinstance(one, Named):
                self.names.note(one.tid, one.comm, one.time_ns)
                if one.is_exec:
                    self._spaces.note_exec(one.pid, one.time_ns)
                    self.executed.append(one)
            elif isinstance(one, Started):
                self.names.note_start(one.parent_tid, one.tid, one.time_ns)
                self._spaces.note_fork(one.parent_pid, one.pid, one.time_ns)
            elif isinstance(one, Mapped):
                path = one.path.decode("utf-8", "surrogateescape")
                end = one.start + one.length
                mapping = Mapping(one.start, end, one.offset, path, one.inode, one.build_id, one.device)
                self._spaces.note_mapping(one.pid, mapping, one.time_ns)


def _get_time(record: Record) -> int:
    return 0 if isinstance(record, Lost) else record.time_ns
