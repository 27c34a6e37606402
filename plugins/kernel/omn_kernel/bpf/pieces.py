"""Pieces that programs share. Each says which registers hold something else after it."""

from __future__ import annotations

from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.registers import R0, R1, R2, R3, Register


def read_clock(program: Assembly, target: Register) -> None:
    """Set a register to CLOCK_MONOTONIC nanoseconds. R0 to R5 hold nothing of the program's after it."""
    program.call("ktime_get_ns")
    if target != R0:
        program.move(target, R0)


def measure_span(program: Assembly, record: Record, began: Register, field: str) -> None:
    """Emit what ends in a record, now, what began at what a register holds: sets its `ns`, and how long that lasted.

    `field` takes the nanoseconds that it lasted. R0 holds them too; R1 to R5 hold nothing of the program's after it.
    """
    read_clock(program, R0)
    program.set(record, "ns", R0)
    program.compute(R0, "-=", began)
    program.set(record, field, R0)


def copy_from_user(program: Assembly, record: Record, source: Register) -> None:
    """Copy a structure from where a register points to in the memory of the process that runs; zeros where it is not.

    R0 is zero, or a negated errno; R1 to R5 hold nothing of the program's after it.
    """
    if source != R3:
        program.move(R3, source)
    program.move(R2, record.layout.itemsize)
    program.point_at(R1, record)
    program.call("probe_read_user")


def compute_bucket(program: Assembly, bucket: Register, value: Register, scratch: Register) -> None:
    """Set a register to the bucket of a value on the log2 scale: 0 for 0, k + 1 for what lies in [2^k, 2^(k+1)).

    It is the scale of the `hist` emit. Neither the value's register nor the scratch one holds it afterwards.
    """
    end = program.make_label("bucket")
    program.move(bucket, 0)
    program.jump_if(value, "==", 0, end)
    program.move(bucket, 1)
    for bits in (32, 16, 8, 4, 2, 1):
        program.move(scratch, value)
        program.compute(scratch, ">>=", bits)
        with program.when(scratch, "!=", 0):
            program.move(value, scratch)
            program.compute(bucket, "+=", bits)
    program.label(end)
