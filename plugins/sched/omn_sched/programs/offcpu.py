"""From where a thread goes off its cpu to its next switch in: for how long, in what state, and from where in its code.

What is known when a thread leaves is kept until it comes back, and handed over from there with the times. The gap has
two parts: what the thread waited for a cpu, by the kernel's own account, and before it what it was blocked. Records of
tracepoints do not tell of the account: there it waited since it was woken.
"""

from __future__ import annotations

import attrs
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesTasks
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.transport import Transport

from omn_sched.programs.entry import SchedulerEntry
from omn_sched.programs.leaving import DEAD, read_leaving_state
from omn_sched.programs.queue_time import read_queue_time, set_arrival, split_gap

FIELDS = [
    ("left_ns", "u8"),
    ("off_ns", "i8"),
    ("queued_ns", "i8"),
    ("waited_ns", "u8"),
    ("woken_ns", "u8"),
    ("state", "u4"),
]
"""What is kept of a thread that is off the cpu: `left_ns` is when it left, 0 for not off it; `woken_ns` when it was
woken since, where records are read."""


@attrs.frozen(kw_only=True)
class OffCpuProgram:
    """Writes the program on sched_switch. `take_task` emits what keeps which thread left, and where.

    `entry` knows when it went into the scheduler, None on kernels that do not tell: there it leaves at the switch.
    `unseen` counts blocks whose end passed no tracepoint, where nothing else tells it.
    """

    _tasks: TargetTasks
    _states: TaskStates
    _take_task: TakesTasks
    _transport: Transport
    _entry: SchedulerEntry | None
    _unseen: LostCounter

    def write_switch(self, program: TaskAssembly) -> None:
        """Write sched_switch(preempt, prev, next)."""
        program.move(R6, R1)
        self._write_leaving(program)
        program.label("arriving")
        self._write_arriving(program)
        program.label("done")
        program.leave(0)

    def _write_leaving(self, program: TaskAssembly) -> None:
        program.read_argument(R7, R6, 1)
        self._tasks.filter.keep(program, R7, "arriving")
        self._end_unseen(program)
        read_leaving_state(program, R9, R6, R7)
        program.jump_if(R9, "&", DEAD, "arriving")
        left = program.reserve(self._states.state)
        program.clear(left)
        program.set(left, "state", R9)
        if isinstance(program, KernelAssembly):
            read_queue_time(program, R9, R7)
            program.set(left, "waited_ns", R9)
        self._take_task(program, left, R7, R6)
        if isinstance(program, KernelAssembly) and self._entry is not None:
            self._entry.take(program, R9)
        else:
            read_clock(program, R9)
        program.set(left, "left_ns", R9)
        self._states.put(program, R7, left)

    def _write_arriving(self, program: TaskAssembly) -> None:
        program.read_argument(R7, R6, 2)
        if self._tasks.tells_others:
            self._tasks.filter.keep(program, R7, "done")
        left = self._states.find_begun(program, R7, "left_ns", at=R8, began=R1, otherwise="done")
        read_clock(program, R0)
        program.set(left, "ns", R0)
        self._end(program, left)

    def _end_unseen(self, program: TaskAssembly) -> None:
        """End the block of the task that leaves, in R7, where it came back and passed no tracepoint.

        One that was found asleep and had come back before that was written down was no block.
        """
        left = self._states.find_begun(program, R7, "left_ns", at=R8, began=R1, otherwise="ended")
        if isinstance(program, KernelAssembly):
            read_clock(program, R9)
            set_arrival(program, R9, R7)
            program.get(R1, left, "left_ns")
            program.jump_if(R9, "<", R1, "ended")
            program.set(left, "ns", R9)
            self._end(program, left)
        else:
            self._unseen.emit_count(program)
        program.label("ended")

    def _end(self, program: TaskAssembly, left: Record) -> None:
        """Hand over the block in R8 of the task in R7, whose end is set."""
        self._read_wait(program, left)
        program.get(R0, left, "ns")
        program.get(R1, left, "left_ns")
        program.compute(R0, "-=", R1)
        program.get(R1, left, "state")
        split_gap(program, R0, R9, R1)
        program.set(left, "off_ns", R0)
        program.set(left, "queued_ns", R9)
        self._transport.write(program, left, R6)
        program.set(left, "left_ns", 0)

    def _read_wait(self, program: TaskAssembly, left: Record) -> None:
        """Set R9 to what the task in R7 waited for a cpu in the block that ends."""
        if isinstance(program, KernelAssembly):
            read_queue_time(program, R9, R7)
            program.get(R1, left, "waited_ns")
            program.compute(R9, "-=", R1)
            return
        program.move(R9, 0)
        program.get(R1, left, "woken_ns")
        with program.when(R1, "!=", 0):
            program.get(R9, left, "ns")
            program.compute(R9, "-=", R1)

    def write_wakeup(self, program: TaskAssembly) -> None:
        """Write sched_wakeup(task), for records: one that is off the cpu waits for it from now on."""
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        if self._tasks.tells_others:
            self._tasks.filter.keep(program, R7, "done")
        read_clock(program, R9)
        left = self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "done")
        program.set(left, "woken_ns", R9)
        program.label("done")
        program.leave(0)
