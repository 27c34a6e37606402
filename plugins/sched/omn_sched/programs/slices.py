"""Turns of threads on a cpu: from a switch in to the next switch out, with the gap before it.

The record of a turn stands under its thread while that runs, and is handed over from there when it leaves. What the
thread was off the cpu is known when it comes back, and goes with the turn that follows.

With the kernel's types its own account says when a thread got its cpu and how long it waited for that. Records do not:
there a thread waited since it was woken, and a turn whose beginning passed no tracepoint is lost.
"""

from __future__ import annotations

import attrs
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.tracing import ABSENT
from omn_kernel.bpf.transport import Transport

from omn_sched.programs.leaving import read_leaving_state
from omn_sched.programs.queue_time import read_queue_time, set_arrival, split_gap

GAPS = ("off_ns", "queue_ns", "wake_to_run_ns")
FIELDS = [
    ("began_ns", "u8"),
    ("arrivals", "u8"),
    ("slice_ns", "i8"),
    *((name, "i8") for name in GAPS),
    ("left_ns", "u8"),
    ("waited_ns", "u8"),
    ("woken_ns", "u8"),
    ("state", "u4"),
    ("is_on", "u4"),
]
"""What is kept of a thread: when it got its cpu, 0 for not on one; else when it left, what it had waited then, and when
it was woken since. `arrivals` is how often it got a cpu by the kernel's count, for this turn too. `is_on` is set at the
end, of those that were found on a cpu."""


@attrs.frozen(kw_only=True)
class SlicePrograms:
    """Writes the programs on sched_switch, on wakeups, and those that begin and end with whoever runs.

    `hidden` counts turns whose end passed no tracepoint.
    """

    _tasks: TargetTasks
    _fields: TaskFields
    _states: TaskStates
    _transport: Transport
    _hidden: LostCounter

    def write_switch(self, program: TaskAssembly) -> None:
        """Write sched_switch(preempt, prev, next, state)."""
        first = program.reserve(self._states.state)
        program.move(R6, R1)
        self._write_leaving(program, first)
        program.label("arriving")
        self._write_arriving(program, first)
        program.label("done")
        program.leave(0)

    def _write_leaving(self, program: TaskAssembly, first: Record) -> None:
        """End the turn of the task that leaves."""
        program.read_argument(R7, R6, 1)
        self._tasks.filter.keep(program, R7, "arriving")
        self._states.look_up(program, R7)
        program.jump_if(R0, "!=", 0, "known")
        program.clear(first)
        self._states.put(program, R7, first)
        self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "arriving")
        program.label("known")
        program.move(R8, R0)
        turn = Record(R8, self._states.state)
        read_clock(program, R0)
        program.set(turn, "ns", R0)
        if isinstance(program, KernelAssembly):
            self._hold_to_account(program, turn)
        read_leaving_state(program, R9, R6, R7)
        program.set(turn, "state", R9)
        if isinstance(program, KernelAssembly):
            read_queue_time(program, R9, R7)
            program.set(turn, "waited_ns", R9)
        else:
            self._leave_unseen(program, turn)
        program.get(R0, turn, "ns")
        program.set(turn, "left_ns", R0)
        program.get(R1, turn, "began_ns")
        program.compute(R0, "-=", R1)
        program.set(turn, "slice_ns", R0)
        self._transport.write(program, turn, R6)
        program.set(turn, "began_ns", 0)
        program.set(turn, "woken_ns", 0)

    def _leave_unseen(self, program: TaskAssembly, turn: Record) -> None:
        """Hand over no turn that was not seen to begin: it is lost, but of a thread of which nothing was known."""
        program.get(R1, turn, "began_ns")
        program.jump_if(R1, "!=", 0, "seen")
        program.get(R1, turn, "left_ns")
        with program.when(R1, "!=", 0):
            self._hidden.emit_count(program)
        program.get(R0, turn, "ns")
        program.set(turn, "left_ns", R0)
        program.set(turn, "woken_ns", 0)
        program.jump("arriving")
        program.label("seen")

    def _hold_to_account(self, program: KernelAssembly, turn: Record) -> None:
        """Hold the beginning of the turn that ends to the kernel's account of it, which stands where none was seen."""
        program.get(R1, turn, "began_ns")
        program.jump_if(R1, "==", 0, "unseen")
        program.read_field(R9, R7, "task_struct", "sched_info.pcount")
        program.get(R1, turn, "arrivals")
        program.jump_if(R9, "<=", R1, "began")
        # It left and came back since, and no tracepoint was passed.
        self._hidden.emit_count(program)
        program.set(turn, "left_ns", 0)
        program.label("unseen")
        program.get(R9, turn, "ns")
        set_arrival(program, R9, R7)
        self._begin_at_arrival(program, turn)
        program.label("began")

    def _begin_at_arrival(self, program: KernelAssembly, turn: Record) -> None:
        """Begin a turn whose beginning passed no tracepoint at R9, but not before the task left.

        While it runs its account of waits is what it was when it arrived.
        """
        program.get(R1, turn, "left_ns")
        with program.when(R9, "<", R1):
            program.move(R9, R1)
        program.set(turn, "began_ns", R9)
        self._set_unknown(program, turn)
        with program.when(R1, "!=", 0):
            program.read_field(R9, R7, "task_struct", "sched_info.run_delay")
            self._set_gap(program, turn)
        self._fields.write(program, turn, R7)

    def _write_arriving(self, program: TaskAssembly, first: Record) -> None:
        """Begin the turn of the task that comes."""
        program.read_argument(R7, R6, 2)
        self._tasks.filter.keep(program, R7, "done")
        self._states.look_up(program, R7)
        program.jump_if(R0, "!=", 0, "back")
        self._begin(program, first)
        self._count_arrivals(program, first, 1)
        self._states.put(program, R7, first)
        program.jump("done")

        program.label("back")
        program.move(R8, R0)
        turn = Record(R8, self._states.state)
        program.get(R1, turn, "began_ns")
        with program.when(R1, "!=", 0):
            self._hidden.emit_count(program)
        self._set_unknown(program, turn)
        read_clock(program, R0)
        program.set(turn, "began_ns", R0)
        self._count_arrivals(program, turn, 1)
        program.get(R1, turn, "left_ns")
        with program.when(R1, "!=", 0):
            self._read_wait(program, turn)
            self._set_gap(program, turn)
        program.set(turn, "left_ns", 0)
        self._fields.write(program, turn, R7)

    def _read_wait(self, program: TaskAssembly, turn: Record) -> None:
        """Set R9 to what the task in R7 waited for a cpu since ever; where nobody tells that, since it was woken."""
        if isinstance(program, KernelAssembly):
            read_queue_time(program, R9, R7)
            return
        program.move(R9, 0)
        program.get(R1, turn, "woken_ns")
        with program.when(R1, "!=", 0):
            program.get(R9, turn, "began_ns")
            program.compute(R9, "-=", R1)

    def _set_gap(self, program: TaskAssembly, turn: Record) -> None:
        """Set what of the gap before a turn the task waited for a cpu, which R9 says since ever, and was awake."""
        program.get(R1, turn, "waited_ns")
        program.compute(R9, "-=", R1)
        program.get(R0, turn, "began_ns")
        program.get(R2, turn, "woken_ns")
        with program.when(R2, "!=", 0):
            program.move(R1, R0)
            program.compute(R1, "-=", R2)
            with program.when(R1, "s<", 0):
                program.move(R1, 0)
            program.set(turn, "wake_to_run_ns", R1)
        program.get(R1, turn, "left_ns")
        program.compute(R0, "-=", R1)
        program.get(R1, turn, "state")
        split_gap(program, R0, R9, R1)
        program.set(turn, "off_ns", R0)
        program.set(turn, "queue_ns", R9)

    def _set_unknown(self, program: TaskAssembly, turn: Record) -> None:
        for name in GAPS:
            program.set(turn, name, ABSENT)

    def _begin(self, program: TaskAssembly, turn: Record) -> None:
        """Emit what makes a record of a turn that begins now, of the task in R7, the gap before it unknown."""
        program.clear(turn)
        self._set_unknown(program, turn)
        read_clock(program, R0)
        program.set(turn, "began_ns", R0)
        self._fields.write(program, turn, R7)

    def _count_arrivals(self, program: TaskAssembly, turn: Record, more: int) -> None:
        """Set how often the task in R7 got a cpu, for this turn too, which no record tells. R9 holds nothing after it.

        The kernel counts after the tracepoint of the switch: `more` is what it has not counted yet.
        """
        if not isinstance(program, KernelAssembly):
            return
        program.read_field(R9, R7, "task_struct", "sched_info.pcount")
        program.compute(R9, "+=", more)
        program.set(turn, "arrivals", R9)

    def write_running(self, program: TaskAssembly) -> None:
        """Write what begins with the task that runs, unless its turn is known already."""
        turn = program.reserve(self._states.state)
        program.point_to_current(R7)
        self._tasks.filter.keep(program, R7, "done")
        self._states.look_up(program, R7)
        program.jump_if(R0, "!=", 0, "done")
        self._begin(program, turn)
        self._count_arrivals(program, turn, 0)
        self._states.put(program, R7, turn)
        program.label("done")
        program.leave(0)

    def write_marking(self, program: TaskAssembly) -> None:
        """Write what marks the turn of the task that runs as one that is on still."""
        program.point_to_current(R7)
        turn = self._states.look_up(program, R7)
        with program.when(R0, "!=", 0):
            program.set(turn, "is_on", 1)
        program.leave(0)

    def write_wakeup(self, program: TaskAssembly) -> None:
        """Write sched_wakeup(task): of one that is on its cpu still it says nothing."""
        program.read_argument(R7, R1, 0)
        self._tasks.filter.keep(program, R7, "done")
        read_clock(program, R9)
        turn = self._states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "done")
        program.get(R1, turn, "began_ns")
        program.jump_if(R1, "!=", 0, "done")
        program.set(turn, "woken_ns", R9)
        program.label("done")
        program.leave(0)

    def write_new(self, program: TaskAssembly) -> None:
        """Write sched_wakeup_new(task): it waits for its first turn from now on, and is no thread that was there."""
        turn = program.reserve(self._states.state)
        program.read_argument(R7, R1, 0)
        self._tasks.filter.keep(program, R7, "done")
        program.clear(turn)
        read_clock(program, R9)
        program.set(turn, "left_ns", R9)
        program.set(turn, "woken_ns", R9)
        self._states.put(program, R7, turn)
        program.label("done")
        program.leave(0)
