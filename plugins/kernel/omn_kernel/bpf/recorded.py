"""Collectors of classic tracepoints, which need nothing of the kernel's types: tracefs says what lies in a record.

Of the task that runs programs know its numbers and its name by helpers, of any other what the record says. So that
there is no cgroup, no parent, and no pid namespace of it.
"""

from __future__ import annotations

from abc import ABC

from omn_core.api import BoundTarget
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import refuse_other_numbers
from omn_kernel.bpf.followers import RecordFollower
from omn_kernel.bpf.hooks import Tracepoint
from omn_kernel.bpf.reading import RecordAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R7, R8, Register
from omn_kernel.bpf.streaming import StreamCollector

OWN_FIELDS = [("task", "u4"), ("pid", "u4"), ("comm", "S16")]
"""The fields of a record that `RecordedCollector.set_current` sets; a process of 0 is one that nobody told."""
_EXEC = "sched/sched_process_exec"
_BITS = 32


class RecordedCollector(StreamCollector, ABC):
    """A collector of records of classic tracepoints, of the machine or of processes with all that they start.

    `follower` keeps the processes, None for the machine's.
    """

    def attach(self, target: BoundTarget) -> None:
        """Load what follows the target's processes and what asks, attach, and begin. Raises MachineRefused."""
        refuse_other_numbers(target)
        self.follower = self.hold(RecordFollower()) if target.processes else None
        is_held = self.resolved.begins_held(target)
        if self.follower is not None:
            self.count_lost(self.follower.lost, "processes found no room among those that are followed")
            for program, hook in self.follower.write_record_programs():
                self.programs.load(program, hook)
            for handle in target.processes if is_held else ():
                self.programs.load(_write_begin(self.follower, handle.pid), Tracepoint(_EXEC))
        self.write_programs(target)
        self.programs.attach()
        if self.follower is not None and not is_held:
            self.follower.add(target.processes)

    def keep(self, program: RecordAssembly, thread: Register, process: Register, otherwise: str) -> None:
        """Emit what sets a register to the process of a thread, or goes to a label where that is not the target's.

        The machine's every thread is kept but the idle ones, its process 0 for one that nobody told. R0 to R5 hold
        nothing of the program's after it; both registers are of R6 to R9.
        """
        if self.follower is not None:
            self.follower.keep_thread(program, thread, otherwise)
            program.move(process, R0)
            return
        program.jump_if(thread, "==", 0, otherwise)
        program.move(process, 0)

    def keep_current(self, program: RecordAssembly, otherwise: str) -> None:
        """Emit what sets R7 to the thread that runs and R8 to its process, or goes to a label: see `keep`."""
        program.call("get_current_pid_tgid")
        program.move(R7, R0)
        program.compute(R7, "<<=", _BITS)
        program.compute(R7, ">>=", _BITS)
        self.keep(program, R7, R8, otherwise)
        program.call("get_current_pid_tgid")
        program.move(R8, R0)
        program.compute(R8, ">>=", _BITS)

    def set_current(self, program: RecordAssembly, record: Record) -> None:
        """Emit what sets `OWN_FIELDS` to the thread of R7, the process of R8 and the name of the task that runs."""
        program.set(record, "task", R7)
        program.set(record, "pid", R8)
        set_current_name(program, record, "comm")


def set_current_name(program: RecordAssembly, record: Record, field: str) -> None:
    """Emit what sets a field to what the task that runs calls itself. R0 to R5 hold nothing after it."""
    program.point_at(R1, record, field)
    program.move(R2, record.locate(field)[1])
    program.call("get_current_comm")


def _write_begin(follower: RecordFollower, pid: int) -> RecordAssembly:
    """Write the program on sched_process_exec that begins to follow a process there, and its one thread."""
    program = RecordAssembly("begin_at_exec")
    key, process, thread = (
        program.reserve(layout) for layout in (follower.processes.key, follower.processes.value, follower.threads.value)
    )
    program.call("get_current_pid_tgid")
    program.compute(R0, ">>=", _BITS)
    program.jump_if(R0, "!=", pid, "done")
    program.set(key, "id", pid)
    program.set(process, "start_ns", 0)
    program.set(thread, "process", pid)
    program.update(follower.processes, key, process)
    program.update(follower.threads, key, thread)
    program.label("done")
    program.leave(0)
    return program
