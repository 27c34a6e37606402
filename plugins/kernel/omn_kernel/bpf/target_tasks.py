"""The tasks of one target, as the programs of a collector keep them apart: found, followed, begun with."""

from __future__ import annotations

import numpy as np

from omn_core.api import BoundTarget, MachineRefused
from omn_kernel.bpf.assembly import Assembly
from omn_kernel.bpf.filters import TaskFilter, find_filter
from omn_kernel.bpf.followers import Follower
from omn_kernel.bpf.hooks import RawTracepoint
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.btf.types import Btf

_ID = np.dtype([("id", np.uint32)])
_PROCESS = np.dtype([("start_ns", np.uint64)])


class TargetTasks:
    """The tasks of a target and, of processes, all that these start.

    `filter` is what programs keep them by, `follower` what keeps a target's processes, None for any other target. A
    launched program that is held (`is_held`) is the target's from its execve on: what ran before, in its place, is
    omn's own. Raises MachineRefused for a cgroup that programs cannot tell.
    """

    def __init__(self, target: BoundTarget, *, is_held: bool) -> None:
        self._target = target
        self._is_held = is_held
        self.follower = Follower() if target.processes and target.tid is None else None
        try:
            self.filter: TaskFilter = find_filter(target, self.follower)
        except MachineRefused:
            self.close()
            raise

    def load(self, programs: RunningPrograms, types: Btf) -> None:
        """Load what follows the processes, to be attached before what asks. Raises as `RunningPrograms.load` does."""
        if self.follower is None:
            return
        for program, hook in self.follower.write_programs(types):
            programs.load(program, hook)
        if self._is_held:
            for handle in self._target.processes:
                programs.load(_write_begin(self.follower, handle.pid, types), RawTracepoint("sched_process_exec"))

    def begin(self) -> None:
        """Begin with the processes that there are, once the programs are attached; not with one that is held."""
        if self.follower is not None and not self._is_held:
            self.follower.add(self._target.processes)

    def list_processes(self) -> list[int]:
        """List the processes that are followed now; none of a target that is no processes."""
        return [] if self.follower is None else self.follower.processes.read().keys["id"].tolist()

    def close(self) -> None:
        """Let go of what follows the processes."""
        if self.follower is not None:
            self.follower.close()


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
