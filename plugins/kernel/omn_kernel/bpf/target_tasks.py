"""The tasks of one target, as the programs of a collector keep them apart: found, followed, begun with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from omn_core.api import BoundTarget, MachineRefused
from omn_kernel.bpf.assembly import Assembly
from omn_kernel.bpf.filters import RunsInCgroup, TaskFilter, find_filter, open_cgroup_filter
from omn_kernel.bpf.followers import Follower, RecordFollower
from omn_kernel.bpf.hooks import RawTracepoint, Tracepoint
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.btf.types import Btf

_EXEC = "sched_process_exec"
_ID = np.dtype([("id", np.uint32)])
_PROCESS = np.dtype([("start_ns", np.uint64)])


class TargetTasks(ABC):
    """The tasks of a target and, of processes, all that these start.

    `filter` is what programs keep them by, `follower` what keeps a target's processes, None for any other target. A
    launched program that is held (`is_held`) is the target's from its execve on: what ran before, in its place, is
    omn's own. Raises MachineRefused for a cgroup that programs cannot tell.
    """

    follower: Follower | None

    def __init__(self, target: BoundTarget, *, is_held: bool) -> None:
        self._target = target
        self._is_held = is_held
        self.follower = self.make_follower() if target.processes and target.tid is None else None
        try:
            self.filter: TaskFilter = self.find_filter(target)
        except MachineRefused:
            self._close_follower()
            raise

    @abstractmethod
    def make_follower(self) -> Follower:
        """Make what follows the target's processes."""

    def find_filter(self, target: BoundTarget) -> TaskFilter:
        """Find by what the target's tasks are told. Raises MachineRefused for a cgroup that programs cannot tell."""
        return find_filter(target, self.follower)

    @property
    def tells_others(self) -> bool:
        """Whether a task that does not run is told too. Else one is known by what programs kept of it as it ran."""
        return True

    @abstractmethod
    def load(self, programs: RunningPrograms) -> None:
        """Load what follows the processes, to be attached before what asks. Raises as `RunningPrograms.load` does."""

    @property
    def held(self) -> Sequence[int]:
        """The processes to begin with at their execve."""
        return [handle.pid for handle in self._target.processes] if self._is_held else []

    def begin(self) -> None:
        """Begin with the processes that there are, once the programs are attached; not with one that is held."""
        if self.follower is not None and not self._is_held:
            self.follower.add(self._target.processes)

    def list_processes(self) -> list[int]:
        """List the processes that are followed now; none of a target that is no processes."""
        return [] if self.follower is None else self.follower.processes.read().keys["id"].tolist()

    def close(self) -> None:
        """Let go of what follows the processes."""
        self._close_follower()

    def _close_follower(self) -> None:
        if self.follower is not None:
            self.follower.close()


class TypedTasks(TargetTasks):
    """The tasks of a target by the kernel's types."""

    def __init__(self, target: BoundTarget, types: Btf, *, is_held: bool) -> None:
        super().__init__(target, is_held=is_held)
        self._types = types

    def make_follower(self) -> Follower:
        """Make what follows by raw tracepoints."""
        return Follower()

    def load(self, programs: RunningPrograms) -> None:
        """Load the programs on raw tracepoints."""
        if self.follower is None:
            return
        for program, hook in self.follower.write_programs(self._types):
            programs.load(program, hook)
        for pid in self.held:
            programs.load(_write_begin(self.follower, pid, self._types), RawTracepoint(_EXEC))


class RecordedTasks(TargetTasks):
    """The tasks of a target by the records of classic tracepoints, without the kernel's types."""

    follower: RecordFollower | None

    def make_follower(self) -> RecordFollower:
        """Make what follows by records."""
        return RecordFollower()

    def find_filter(self, target: BoundTarget) -> TaskFilter:
        """Find by what the target's tasks are told, those of a cgroup while they run."""
        return find_filter(target, self.follower, open_cgroup_filter)

    @property
    def tells_others(self) -> bool:
        """Whether a task that does not run is told: not of a cgroup."""
        return not isinstance(self.filter, RunsInCgroup)

    def load(self, programs: RunningPrograms) -> None:
        """Load the programs on classic tracepoints."""
        if self.follower is None:
            return
        for program, hook in self.follower.write_record_programs():
            programs.load(program, hook)
        for pid in self.held:
            programs.load(self.follower.write_begin(pid), Tracepoint(f"sched/{_EXEC}"))

    def close(self) -> None:
        """Let go of what follows the processes, and of a cgroup."""
        super().close()
        if isinstance(self.filter, RunsInCgroup):
            self.filter.close()


def _write_begin(follower: Follower, pid: int, types: Btf) -> Assembly:
    """Write the program on sched_process_exec(task, old pid, binary) that begins to follow a process there."""
    program = KernelAssembly("begin_at_exec", types, has_typed_pointers=False)
    key, process = program.reserve(_ID), program.reserve(_PROCESS)
    program.read_argument(R6, R1, 0)
    program.read_field(R0, R6, "task_struct", "tgid")
    program.jump_if(R0, "!=", pid, "done")
    program.set(key, "id", R0)
    program.read_field(R1, R6, "task_struct", "start_time")
    program.set(process, "start_ns", R1)
    program.update(follower.processes, key, process)
    program.label("done")
    program.leave(0)
    return program
