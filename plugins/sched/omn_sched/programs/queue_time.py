"""What a thread waited for a cpu in all its life, and when it got its last, by the kernel's account (sched_info)."""

from __future__ import annotations

from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R1, Register


def read_queue_time(program: KernelAssembly, target: Register, task: Register) -> None:
    """Emit what sets a register to the nanoseconds that a task waited, up to now where it waits.

    Both registers are of R6 to R9. The kernel stamps a task that is put on a queue with the queue's clock
    (`last_queued`), and adds to `run_delay` where it is taken off: until then the wait is the clock's growth.
    """
    program.read_field(target, task, "task_struct", "sched_info.last_queued")
    with program.when(target, "!=", 0):
        program.read_field(R1, task, "task_struct", "se.cfs_rq.rq.clock")
        program.compute(R1, "-=", target)
        program.move(target, R1)
    program.read_field(R1, task, "task_struct", "sched_info.run_delay")
    program.compute(target, "+=", R1)


def set_arrival(program: KernelAssembly, target: Register, task: Register) -> None:
    """Emit what sets a register, which holds the time, to when a task got the cpu that it leaves now.

    Both registers are of R6 to R9. For tasks whose arrival passed no tracepoint: the kernel stamps every one with the
    queue's clock (`last_arrival`), which a switch has just set.
    """
    program.read_field(R1, task, "task_struct", "se.cfs_rq.rq.clock")
    program.compute(target, "-=", R1)
    program.read_field(R1, task, "task_struct", "sched_info.last_arrival")
    program.compute(target, "+=", R1)


def split_gap(program: TaskAssembly, gap: Register, wait: Register, state: Register) -> None:
    """Emit what leaves of the gap between a switch out and the next in what was no wait for a cpu.

    `wait` holds what the kernel's account grew by in it, and afterwards the part of the gap that was a wait. Queues'
    clocks differ from each other and from the stamps'. A task that was made to give way (`state` 0) is stamped on its
    queue a little before it leaves: all of its gap is the wait.
    """
    with program.when(wait, "s<", 0):
        program.move(wait, 0)
    with program.when(wait, ">", gap):
        program.move(wait, gap)
    with program.when(state, "==", 0):
        program.move(wait, gap)
    program.compute(gap, "-=", wait)
