"""Collectors of classic tracepoints, which need nothing of the kernel's types: tracefs says what lies in a record.

Of the task that runs programs know its numbers and its name by helpers, and whether it is in a cgroup; of any other
what the record says. There is no parent, and no pid namespace of it.
"""

from __future__ import annotations

from abc import ABC

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import RunsInCgroup
from omn_kernel.bpf.followers import RecordFollower
from omn_kernel.bpf.reading import RecordAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R7, R8, Register
from omn_kernel.bpf.streaming import StreamCollector

OWN_FIELDS = [("task", "u4"), ("pid", "u4"), ("comm", "S16")]
"""The fields of a record that `RecordedCollector.set_current` sets; a process of 0 is one that nobody told."""
_BITS = 32


class RecordedCollector(StreamCollector, ABC):
    """A collector of records of classic tracepoints, of the machine or of processes with all that they start.

    Of a cgroup only the tasks that run are told: a source of others does not have it among its targets.
    """

    def keep(self, program: RecordAssembly, thread: Register, process: Register, otherwise: str) -> None:
        """Emit what sets a register to the process of a thread, or goes to a label where that is not the target's.

        The machine's every thread is kept but the idle ones, its process 0 for one that nobody told. R0 to R5 hold
        nothing of the program's after it; both registers are of R6 to R9.
        """
        follower = self.tasks.follower
        if isinstance(follower, RecordFollower):
            follower.keep_thread(program, thread, otherwise)
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
        if isinstance(self.tasks.filter, RunsInCgroup):
            self.tasks.filter.keep_current(program, otherwise)
        else:
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
