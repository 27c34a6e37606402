"""Waits in futex calls, from where a thread enters the call to where it leaves it: futex(2), futex_waitv(2).

A call is kept with its thread until it returns, whatever it waits for: its address is one of the thread's, and means
nothing beside another process's. Waking calls begin and end here too, and are handed over where somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.pieces import copy_from_user, measure_span, read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesTasks
from omn_kernel.bpf.system_calls import read_call_argument, read_call_number, read_compat
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.transport import Transport
from omn_kernel.syscalls import find_syscall

FIELDS = [("began_ns", "u8"), ("wait_ns", "i8"), ("addr", "u8"), ("op", "i4"), ("result", "i4")]
"""What is kept of a call: `began_ns` is when it was entered, 0 for none; `op` is of `OPERATIONS`."""

OPERATIONS = {
    0: "wait",
    1: "wake",
    3: "requeue",
    4: "cmp-requeue",
    5: "wake-op",
    6: "lock-pi",
    7: "unlock-pi",
    8: "trylock-pi",
    9: "wait-bitset",
    10: "wake-bitset",
    11: "wait-requeue-pi",
    12: "cmp-requeue-pi",
    13: "lock-pi2",
    1000: "waitv",
    1001: "wait",
    1002: "wake",
    1003: "requeue",
}
"""The commands of futex(2) by their number in <linux/futex.h>, and from 1000 on the calls that are one of their own."""
WAITS = frozenset({0, 6, 9, 11, 13, 1000, 1001})
"""Those that wait."""
SEVERAL = 1000
"""The wait for several addresses at once."""
_CALLS = {"futex": None, "futex_time64": None, "futex_waitv": 1000, "futex_wait": 1001}
_WAKING_CALLS = {"futex_wake": 1002, "futex_requeue": 1003}
COMMAND = 127
"""What of a command is not a flag (FUTEX_CMD_MASK)."""
RESTART = "restart_syscall"
WAITING, RESTARTED = 1 << 30, -516
"""A result of a call that has not returned, and of one that the kernel itself goes on with (ERESTART_RESTARTBLOCK)."""
_WAITER = np.dtype([("value", "u8"), ("addr", "u8"), ("flags", "u8")])
"""struct futex_waitv of <linux/futex.h>."""


def list_calls(*, with_wakes: bool) -> list[str]:
    """List the calls that begin, end or go on with what is measured, by name; not every kernel has each."""
    return [*_CALLS, *(_WAKING_CALLS if with_wakes else ()), RESTART]


def find_calls(*, is_compat: bool, with_wakes: bool) -> Mapping[int, int | None]:
    """Find the numbers of the calls, each with the operation that it is, None where an argument says it."""
    calls = {**_CALLS, **(_WAKING_CALLS if with_wakes else {})}
    found = {find_syscall(name, is_compat=is_compat): operation for name, operation in calls.items()}
    return {number: operation for number, operation in found.items() if number is not None}


@attrs.frozen(kw_only=True)
class FutexPrograms:
    """Writes the programs on sys_enter and sys_exit. `unknown` counts waits that end and were not seen to begin."""

    tasks: TargetTasks
    states: TaskStates
    take_task: TakesTasks
    transport: Transport
    unknown: LostCounter
    with_wakes: bool

    def write_enter(self, program: TaskAssembly) -> None:
        """Write sys_enter(registers, number)."""
        native, compat = (find_calls(is_compat=is_compat, with_wakes=self.with_wakes) for is_compat in (False, True))
        restart = find_syscall(RESTART)
        program.move(R6, R1)
        program.read_argument(R9, R6, 1)
        for number in {*native, *compat}:
            program.jump_if(R9, "==", number, "wanted")
        if restart is not None:
            program.jump_if(R9, "==", restart, "restarted")
        program.jump("done")

        program.label("wanted")
        program.point_to_current(R7)
        self.tasks.filter.keep(program, R7, "done")
        call = program.reserve(self.states.state)
        program.clear(call)
        read_compat(program, R1, R7)
        program.jump_if(R1, "!=", 0, "compat")
        self._write_call(program, call, native, is_compat=False)
        program.label("compat")
        if isinstance(program, KernelAssembly) and program.has_field("pt_regs", "orig_ax"):
            self._write_call(program, call, compat, is_compat=True)
        else:
            program.jump("done")

        program.label("begin")
        program.set(call, "result", WAITING)
        self.take_task(program, call, R7, R6)
        read_clock(program, R0)
        program.set(call, "began_ns", R0)
        self.states.put(program, R7, call)
        program.jump("done")

        if restart is not None:
            self._write_restart(program)
        program.label("done")
        program.leave(0)

    def _write_call(
        self, program: TaskAssembly, call: Record, calls: Mapping[int, int | None], *, is_compat: bool
    ) -> None:
        """Tell which call R9 is the number of, and its address; a command that is not asked for goes no further."""
        program.read_argument(R8, R6, 0)
        for number, operation in calls.items():
            with program.when(R9, "==", number):
                if operation is None:
                    read_call_argument(program, R1, R8, 1, is_compat=is_compat)
                    program.compute(R1, "&=", COMMAND)
                    program.set(call, "op", R1)
                else:
                    program.set(call, "op", operation)
        read_call_argument(program, R1, R8, 0, is_compat=is_compat)
        program.set(call, "addr", R1)
        program.get(R1, call, "op")
        with program.when(R1, "==", SEVERAL):
            program.get(R9, call, "addr")
            self._read_waiter(program, call)
            program.jump("begin")
        for operation in sorted(OPERATIONS if self.with_wakes else WAITS):
            program.jump_if(R1, "==", operation, "begin")
        program.jump("done")

    def _read_waiter(self, program: TaskAssembly, call: Record) -> None:
        """Set the address of a call to that of the waiter which R9 points to, 0 where that cannot be read."""
        waiter = program.reserve(_WAITER)
        program.clear(waiter)
        copy_from_user(program, waiter, R9)
        program.get(R1, waiter, "addr")
        program.set(call, "addr", R1)

    def _write_restart(self, program: TaskAssembly) -> None:
        """Go on with the call that a signal without a handler has interrupted: it waits again for the same."""
        program.label("restarted")
        program.point_to_current(R7)
        call = self.states.look_up(program, R7)
        program.jump_if(R0, "==", 0, "done")
        program.get(R1, call, "result")
        program.compute(R1, "<<=", 32)
        program.compute(R1, "s>>=", 32)
        program.jump_if(R1, "!=", RESTARTED, "done")
        program.move(R8, R0)
        call = Record(R8, self.states.state)
        program.set(call, "result", WAITING)
        read_clock(program, R0)
        program.set(call, "began_ns", R0)

    def write_exit(self, program: TaskAssembly) -> None:
        """Write sys_exit(registers, result)."""
        numbers = {*find_calls(is_compat=False, with_wakes=True), *find_calls(is_compat=True, with_wakes=True)}
        restart = find_syscall(RESTART)
        program.move(R6, R1)
        program.read_argument(R8, R6, 0)
        read_call_number(program, R9, R8)
        for number in {*numbers, *([] if restart is None else [restart])}:
            program.jump_if(R9, "==", number, "wanted")
        program.jump("done")
        program.label("wanted")
        program.point_to_current(R7)
        call = self.states.look_up(program, R7)
        if isinstance(program, KernelAssembly):
            with program.when(R0, "==", 0):
                self._count_unknown(program)
        else:
            # What a call was entered with its return's record does not tell, nor whether it was a wait.
            program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        call = Record(R8, self.states.state)
        program.get(R9, call, "began_ns")
        program.jump_if(R9, "==", 0, "done")
        measure_span(program, call, R9, "wait_ns")
        program.read_argument(R1, R6, 1)
        program.set(call, "result", R1)
        if isinstance(program, KernelAssembly):
            self._find_woken(program, call)
        self.transport.write(program, call, R6)
        program.set(call, "began_ns", 0)
        program.label("done")
        program.leave(0)

    def _count_unknown(self, program: KernelAssembly) -> None:
        """Count a wait of a thread of the target of which nothing was seen before; 32-bit code's is not told."""
        waits = find_calls(is_compat=False, with_wakes=False)
        for number, operation in waits.items():
            if operation is not None:
                program.jump_if(R9, "==", number, "unknown")
        (futex,) = (number for number, operation in waits.items() if operation is None)
        program.jump_if(R9, "!=", futex, "done")
        read_call_argument(program, R1, R8, 1)
        program.compute(R1, "&=", COMMAND)
        for operation in sorted(WAITS):
            program.jump_if(R1, "==", operation, "unknown")
        program.jump("done")
        program.label("unknown")
        self.tasks.filter.keep(program, R7, "done")
        self.unknown.emit_count(program)
        program.jump("done")

    def _find_woken(self, program: KernelAssembly, call: Record) -> None:
        """Set the address of a wait for several to that of the one that ended it, by the number that it returns."""
        end = program.make_label("woken")
        program.get(R1, call, "op")
        program.jump_if(R1, "!=", SEVERAL, end)
        program.read_argument(R9, R6, 1)
        program.jump_if(R9, "s<=", 0, end)
        program.compute(R9, "*=", _WAITER.itemsize)
        program.read_argument(R1, R6, 0)
        read_call_argument(program, R2, R1, 0)
        program.compute(R9, "+=", R2)
        self._read_waiter(program, call)
        program.label(end)
