"""The registers of an eBPF program, and what a program makes of them.

R1 holds the context when a program begins, and R0 what it returns when it ends. A call of a helper takes its arguments
from R1 to R5, leaves its answer in R0 and nothing in R1 to R5; R6 to R9 stay. R10 is the end of the stack, and is only
read.
"""

from __future__ import annotations

import attrs


@attrs.frozen(repr=False)
class Register:
    """A register of 64 bits."""

    number: int

    def __str__(self) -> str:
        return f"r{self.number}"


R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 = (Register(number) for number in range(11))
