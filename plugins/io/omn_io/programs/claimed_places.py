"""Places of an array that whoever needs one claims by its number, without a lock: 0 is a place that is nobody's.

A number is added to a place to claim it, so that the sum of two at a time is neither's, and taken away again.
"""

from __future__ import annotations

from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.registers import R1, Register

SPREADS = 0x1E3779B1
"""An odd number: what it multiplies lies far apart in the bits from `SPREADS_AT` on."""
SPREADS_AT = 20


def compute_place(program: Assembly, number: Register, step: Register | int, places: int) -> None:
    """Emit what sets R1 to where a number leads among places, a power of two of them, and so many further."""
    program.move(R1, number)
    program.compute(R1, "*=", SPREADS)
    program.compute(R1, ">>=", SPREADS_AT)
    program.compute(R1, "+=", step)
    program.compute(R1, "&=", places - 1)


def leave_place(program: Assembly, place: Record, field: str, number: Register) -> None:
    """Emit what takes a number away from the place that it was added to. R1 holds nothing after it."""
    program.move(R1, number)
    program.compute(R1, "*=", -1)
    program.add_to(place, field, R1)
