"""How many tasks stand on a cpu's run queue, with the one that runs."""

from __future__ import annotations

import os

from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9, Register
from omn_kernel.bpf.transport import STAMP, Transport

FIELDS = [(STAMP, "u8"), ("cpu", "u4"), ("length", "u4")]


def write_length(program: KernelAssembly, transport: Transport) -> None:
    """Write the program that hands over how many tasks are on the queue of the cpu that it runs on, less omn's own."""
    record = program.reserve(FIELDS)
    program.move(R6, R1)
    program.point_to_current(R7)
    program.read_field(R8, R7, "task_struct", "se.cfs_rq.rq")
    program.read_field(R9, R8, "rq", "nr_running")
    _leave_sleepers_out(program, R9, R8)
    # What reads the answer may be what runs: it stands on the queue because of that alone.
    program.read_field(R0, R7, "task_struct", "tgid")
    with program.when(R0, "==", os.getpid()):
        program.compute(R9, "-=", 1)
    program.set(record, "length", R9)
    program.call("get_smp_processor_id")
    program.set(record, "cpu", R0)
    read_clock(program, R0)
    program.set(record, STAMP, R0)
    transport.write(program, record, R6)
    program.leave(0)


def _leave_sleepers_out(program: KernelAssembly, length: Register, queue: Register) -> None:
    """Emit what takes those off that went to sleep and have not run their due, which Linux 6.12 leaves on the queue.

    Linux 6.13 counts them, 6.14 those that do not sleep; 6.12 counts neither, and has them in the length.
    """
    if program.has_field("cfs_rq", "h_nr_runnable") and program.has_field("cfs_rq", "h_nr_queued"):
        program.read_field(R0, queue, "rq", "cfs.h_nr_queued")
        program.compute(length, "-=", R0)
        program.read_field(R0, queue, "rq", "cfs.h_nr_runnable")
        program.compute(length, "+=", R0)
    elif program.has_field("cfs_rq", "h_nr_delayed"):
        program.read_field(R0, queue, "rq", "cfs.h_nr_delayed")
        program.compute(length, "-=", R0)
