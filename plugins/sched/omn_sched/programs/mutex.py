"""Mutexes of the C library: from where a thread asks for one to where it has it, and to where it lets it go.

A lock that a thread asks for is kept with the thread until the function returns, then under the process and the mutex
until it is let go, when it is handed over with both times. So who asks meanwhile finds who has it. A wait for a
condition lets its mutex go and has it again when it returns; how long it then waited for it is not known. A thread may
end in either function, killed or cancelled: then nothing returns, and what it waited for ends with it.
"""

from __future__ import annotations

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import measure_span, read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.stacked import TakesTasks
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tracing import ABSENT
from omn_kernel.bpf.transport import Transport
from omn_kernel.bpf.user_functions import UserFunction, read_caller, read_user_argument, read_user_result

FIELDS = [
    ("began_ns", "u8"),
    ("acquired_ns", "u8"),
    ("wait_ns", "i8"),
    ("held_ns", "i8"),
    ("addr", "u8"),
    ("caller", "u8"),
    ("own_comm", "S16"),
    ("holder_comm", "S16"),
    ("thread", "u4"),
    ("depth", "u4"),
    ("holder", "u4"),
]
"""What is kept of a lock: `began_ns` is when it was asked for, 0 for none, and `acquired_ns` when it was had, 0 for not
yet. `holder` is who had it when it was asked for, 0 for nobody that is known; `depth` how often its own did."""
KEY = np.dtype([("process", np.uint64), ("addr", np.uint64)])
MOST_HELD = 1 << 16
"""How many mutexes that are held are remembered at a time."""

_LOCKS = ("pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", "pthread_mutex_trylock")
_UNLOCKS = ("pthread_mutex_unlock",)
_CONDITIONS = ("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait")
_OWNER_DIED = 130
_TIMED_OUT = 110
_BUSY = 16


@attrs.frozen(kw_only=True)
class MutexPrograms:
    """Writes the programs on the functions. `tasks` tells whose mutexes are kept, `thread` whose alone are told of.

    `lost` counts mutexes that found no room among those that are held, `abandoned` threads that ended as they waited.
    """

    tasks: TaskFilter
    thread: int | None
    waiting: TaskStates
    held: Map
    take_task: TakesTasks
    transport: Transport
    lost: LostCounter
    abandoned: LostCounter

    def list_functions(self) -> list[UserFunction]:
        """List the programs, those that end something before those that begin it."""
        return [
            UserFunction(_UNLOCKS, self.write_unlock),
            UserFunction(_LOCKS, self.write_locked, is_return=True),
            UserFunction(_CONDITIONS, self.write_waited, is_return=True),
            UserFunction(_LOCKS, self.write_lock),
            UserFunction(_CONDITIONS, self.write_wait),
        ]

    def write_lock(self, program: KernelAssembly) -> None:
        """Write the entry of a function that locks the mutex which is its first argument."""
        lock = self._begin(program, 0)
        key = self._make_key(program)
        program.look_up(self.held, key)
        program.jump_if(R0, "==", 0, "free")
        program.move(R8, R0)
        other = Record(R8, self.held.value)
        program.get(R1, other, "thread")
        program.get(R9, lock, "thread")
        program.jump_if(R1, "==", R9, "free")
        program.set(lock, "holder", R1)
        self._copy_comm(program, lock, other)
        program.label("free")
        read_clock(program, R0)
        program.set(lock, "began_ns", R0)
        self.waiting.put(program, R7, lock)
        program.label("done")
        program.leave(0)

    def write_wait(self, program: KernelAssembly) -> None:
        """Write the entry of a function that waits for a condition, its mutex the second argument, and lets this go."""
        lock = self._begin(program, 1)
        program.set(lock, "wait_ns", ABSENT)
        read_clock(program, R0)
        # What is asked for from here on is the condition: it is no lock's beginning.
        program.set(lock, "acquired_ns", R0)
        self.waiting.put(program, R7, lock)
        self._let_go(program)
        program.label("done")
        program.leave(0)

    def write_unlock(self, program: KernelAssembly) -> None:
        """Write the entry of the function that unlocks the mutex which is its first argument."""
        program.move(R6, R1)
        read_user_argument(program, R9, R6, 0)
        self._let_go(program)
        program.label("done")
        program.leave(0)

    def write_locked(self, program: KernelAssembly) -> None:
        """Write the return of a function that locks: with the mutex, or without it."""
        lock = self._find_waiting(program, "began_ns")
        read_clock(program, R0)
        program.move(R1, R0)
        program.compute(R1, "-=", R9)
        program.set(lock, "wait_ns", R1)
        program.set(lock, "ns", R0)
        read_user_result(program, R9, R6)
        program.jump_if(R9, "==", 0, "acquired")
        program.jump_if(R9, "==", _OWNER_DIED, "acquired")
        # One that only tries and one that fails have nothing to let go; the former has waited for nothing either.
        with program.when(R9, "!=", _BUSY):
            self._hand_over(program, lock)
        program.set(lock, "began_ns", 0)
        program.jump("done")
        program.label("acquired")
        program.set(lock, "acquired_ns", R0)
        self._keep(program, lock)
        program.set(lock, "began_ns", 0)
        program.label("done")
        program.leave(0)

    def write_waited(self, program: KernelAssembly) -> None:
        """Write the return of a function that waits for a condition: the mutex is had again, whatever it waited for."""
        lock = self._find_waiting(program, "acquired_ns")
        read_user_result(program, R9, R6)
        with program.when(R9, "!=", 0):
            program.jump_if(R9, "!=", _TIMED_OUT, "done")
        read_clock(program, R0)
        program.set(lock, "began_ns", R0)
        program.set(lock, "acquired_ns", R0)
        self._keep(program, lock)
        program.set(lock, "began_ns", 0)
        program.set(lock, "acquired_ns", 0)
        program.label("done")
        program.leave(0)

    def write_exit(self, program: KernelAssembly) -> None:
        """Write sched_process_exit(task): a wait for a mutex lasted until now, and one for a condition says nothing."""
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        self.waiting.look_up(program, R7)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        lock = Record(R8, self.waiting.state)
        if self.thread is not None:
            program.get(R1, lock, "thread")
            program.jump_if(R1, "!=", self.thread, "done")
        program.get(R9, lock, "began_ns")
        with program.when(R9, "!=", 0):
            measure_span(program, lock, R9, "wait_ns")
            self._hand_over(program, lock)
            program.jump("abandoned")
        program.get(R9, lock, "acquired_ns")
        program.jump_if(R9, "==", 0, "done")
        program.label("abandoned")
        program.set(lock, "began_ns", 0)
        program.set(lock, "acquired_ns", 0)
        self.abandoned.emit_count(program)
        program.label("done")
        program.leave(0)

    def _begin(self, program: KernelAssembly, position: int) -> Record:
        """Make the record of what the task in R7 asks for; its address stays in R9 until another piece uses it."""
        program.move(R6, R1)
        program.point_to_current(R7)
        self.tasks.keep(program, R7, "done")
        lock = program.reserve(self.waiting.state)
        program.clear(lock)
        program.set(lock, "held_ns", ABSENT)
        read_user_argument(program, R9, R6, position)
        program.set(lock, "addr", R9)
        program.read_thread(R1, R7)
        program.set(lock, "thread", R1)
        program.copy_field(lock, "own_comm", R7, "task_struct", "comm")
        self.take_task(program, lock, R7, R6)
        read_caller(program, R8, R6)
        program.set(lock, "caller", R8)
        return lock

    def _make_key(self, program: KernelAssembly) -> Record:
        """Make the key of the mutex whose address is in R9, in the process that runs."""
        key = program.reserve(KEY)
        program.call("get_current_pid_tgid")
        program.compute(R0, ">>=", 32)
        program.set(key, "process", R0)
        program.set(key, "addr", R9)
        return key

    def _find_waiting(self, program: KernelAssembly, began: str) -> Record:
        """Find what the thread that runs asked for, in R8, and since when, in R9; `done` where it asked for nothing."""
        program.move(R6, R1)
        program.point_to_current(R7)
        return self.waiting.find_begun(program, R7, began, at=R8, began=R9, otherwise="done")

    def _copy_comm(self, program: KernelAssembly, lock: Record, other: Record) -> None:
        begin, _ = other.locate("own_comm")
        end, _ = lock.locate("holder_comm")
        for part in (0, 8):
            program.load(R1, other.base, begin + part, 8)
            program.store(lock.base, end + part, R1, 8)

    def _keep(self, program: KernelAssembly, lock: Record) -> None:
        """Keep the lock in R8 as one that is held; one that its thread has already is held once more."""
        program.get(R9, lock, "addr")
        key = self._make_key(program)
        end = program.make_label("kept")
        program.look_up(self.held, key)
        program.jump_if(R0, "==", 0, f"{end}.new")
        held = Record(R0, self.held.value)
        program.get(R1, held, "thread")
        program.get(R9, lock, "thread")
        program.jump_if(R1, "!=", R9, f"{end}.new")
        program.get(R1, held, "depth")
        program.compute(R1, "+=", 1)
        program.set(held, "depth", R1)
        program.jump(end)
        program.label(f"{end}.new")
        program.set(lock, "depth", 1)
        program.update(self.held, key, lock)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)
        program.label(end)

    def _let_go(self, program: KernelAssembly) -> None:
        """Hand over the lock of the mutex whose address is in R9, where it is held and not held once more than that."""
        key = self._make_key(program)
        program.look_up(self.held, key)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        held = Record(R8, self.held.value)
        program.get(R1, held, "depth")
        with program.when(R1, ">", 1):
            program.compute(R1, "-=", 1)
            program.set(held, "depth", R1)
            program.jump("done")
        read_clock(program, R0)
        program.set(held, "ns", R0)
        program.get(R1, held, "acquired_ns")
        program.compute(R0, "-=", R1)
        program.set(held, "held_ns", R0)
        self._hand_over(program, held)
        program.delete(self.held, key)

    def _hand_over(self, program: KernelAssembly, lock: Record) -> None:
        """Hand over the lock in R8, unless it is another thread's than the one that is asked about."""
        end = program.make_label("another")
        if self.thread is not None:
            program.get(R1, lock, "thread")
            program.jump_if(R1, "!=", self.thread, end)
        self.transport.write(program, lock, R6)
        program.label(end)
