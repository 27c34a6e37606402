"""The programs that a library came into, beside those that were executed: whom it saw, and what became of the first."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import BoundTarget, MachineRefused, RunContext
from omn_kernel.ended import find_signal
from omn_kernel.injected.memory import BYPASSED, EXITING, PROCESS
from omn_kernel.perf.followed_tasks import FollowedTasks
from omn_kernel.perf.task_records import TaskRecords
from omn_kernel.symbols.choice import NameSources
from omn_kernel.symbols.symboliser import Symboliser

Array = npt.NDArray[Any]
_MOST_NAMED = 5


class InjectedPrograms:
    """Follows a launched program and all that it starts, through their forks, execs and mappings.

    Where perf events are refused, what a process has mapped is read when it is first seen.
    """

    def __init__(self, target: BoundTarget, context: RunContext, sources: NameSources, *, is_held: bool) -> None:
        self._handle = target.processes[0]
        self._context = context
        self._tasks = FollowedTasks(context.sysroot, sources)
        self.processes: Array = np.zeros(0, PROCESS)
        self._namespace = os.stat("/proc/self/ns/pid").st_ino
        self._refused: str | None = None
        self._records: TaskRecords | None = None
        self._ended_by: str | None = None
        try:
            self._records = TaskRecords(target, self._tasks, context.clock(), is_held=is_held)
        except MachineRefused as refusal:
            self._refused = refusal.reason

    @property
    def symboliser(self) -> Symboliser:
        """What names addresses in them."""
        return self._tasks.symboliser

    @property
    def were_seen(self) -> bool:
        """Whether the library came into any, and is called there."""
        return not bool(self._is(BYPASSED).all())

    def _is(self, state: int) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.processes["state"] & state != 0
        return found

    def is_own(self, processes: Array) -> npt.NDArray[np.bool_]:
        """Tell of some places of processes whether the numbers there are such as omn itself sees."""
        own: npt.NDArray[np.bool_] = self.processes["pid_namespace"][processes] == self._namespace
        return own

    def take(self, processes: Array) -> None:
        """Take which processes the library is in, and what tasks did since the last time."""
        now_ns = self._context.clock()
        new, self.processes = processes[len(self.processes) :], processes
        if self._records is not None:
            self._records.take(now_ns)
            return
        for pid in new["pid"][new["pid_namespace"] == self._namespace].tolist():
            self._tasks.follow(pid, pid, now_ns)

    def finish(self, now_ns: int) -> None:
        """Take what is left, and see how the launched program ended, if it did."""
        if self._records is not None:
            self._records.finish(now_ns)
        self._ended_by = find_signal(self._handle.pid)

    def facts(self) -> tuple[str, ...]:
        """Say in how many processes the library was, and what could not be named."""
        return (f"the library was in {len(self.processes)} processes", *self._tasks.symboliser.notes)

    def degradations(self) -> tuple[str, ...]:
        """Say whom the library was not in, or was in for nothing, and whether it may have ended the program."""
        said = []
        if unseen := self._list_unseen():
            said.append(f"executed without the library, and not in the answer: {_name_some(unseen)}")
        if bypassed := self.processes["pid"][self._is(BYPASSED)].tolist():
            said.append(
                f"an allocator of their own, which is not seen, have processes {_name_some(map(str, bypassed))}"
            )
        if self._refused is not None:
            said.append(f"whether all that was executed had the library is not known: {self._refused}")
        if (death := self._find_death()) is not None:
            said.append(death)
        return tuple(said)

    def _list_unseen(self) -> list[str]:
        """List what was executed, by name, where no library said that it was there until the next that was."""
        executed = sorted(self._tasks.executed, key=lambda one: (one.pid, one.time_ns))
        seen: dict[int, list[int]] = {}
        for place in np.flatnonzero(self.processes["pid_namespace"] == self._namespace):
            seen.setdefault(int(self.processes["pid"][place]), []).append(int(self.processes["began_ns"][place]))
        unseen = []
        for number, one in enumerate(executed):
            after = executed[number + 1] if number + 1 < len(executed) else None
            until_ns = after.time_ns if after is not None and after.pid == one.pid else None
            began = [at for at in seen.get(one.pid, []) if at >= one.time_ns and (until_ns is None or at < until_ns)]
            if not began:
                unseen.append(one.comm.decode("utf-8", "replace"))
        return unseen

    def _find_death(self) -> str | None:
        """Find out whether the launched program was killed after the library's way out of it began."""
        own = self.processes["pid"] == self._handle.pid
        if self._ended_by is None or not own.any() or not self._is(EXITING)[own][-1]:
            return None
        return (
            f"{self._ended_by} killed the program after the way out of omn's library in it began: omn may have done it"
        )

    def find_failure(self) -> str | None:
        """Return what makes the run fail: the program's death on the library's way out, or no library anywhere."""
        if not self.were_seen:
            where = "its calls went past it" if len(self.processes) else "no program loaded it"
            return f"the library that counts was of no use: {where}"
        return self._find_death()

    def close(self) -> None:
        """Let go of what follows them."""
        if self._records is not None:
            self._records.close()
        else:
            self._tasks.symboliser.close()


def _name_some(names: Any) -> str:
    different = list(dict.fromkeys(names))
    more = f" and {len(different) - _MOST_NAMED} more" if len(different) > _MOST_NAMED else ""
    return ", ".join(different[:_MOST_NAMED]) + more
