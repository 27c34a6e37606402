"""What samples copied of a program for its callers to be found: its registers, and the top of its stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from omn_kernel.native._unwind import lib

REGISTERS = lib.OMN_REGISTERS
INSTRUCTION = 16
"""Where a row of registers holds the instruction: DWARF's column of the return address."""


@attrs.frozen(eq=False, repr=False)
class CopiedStacks:
    """What samples copied: rows of registers as DWARF numbers them, and each one's bytes from its rsp on.

    Sample n's bytes are `stacks[starts[n]:ends[n]]`. Raises ValueError for places that are not the bytes'.
    """

    registers: NDArray[np.uint64]
    stacks: NDArray[np.uint8]
    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]

    def __attrs_post_init__(self) -> None:
        count = len(self.starts)
        if self.registers.shape != (count, REGISTERS) or len(self.ends) != count:
            raise ValueError(
                f"{self.registers.shape} registers and {len(self.ends)} ends are not those of {count} stacks"
            )
        if (self.ends < self.starts).any() or (self.ends > len(self.stacks)).any():
            raise ValueError(f"places in {len(self.stacks)} bytes are not those of {count} stacks")

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def nbytes(self) -> int:
        """Bytes held by the columns."""
        return self.registers.nbytes + self.stacks.nbytes + self.starts.nbytes + self.ends.nbytes

    @classmethod
    def concatenate(cls, parts: Sequence[CopiedStacks]) -> CopiedStacks:
        """Lay samples end to end. There is at least one part."""
        bases = np.cumsum([0, *(len(part.stacks) for part in parts)]).astype(np.uint64)
        return cls(
            np.concatenate([part.registers for part in parts]),
            np.concatenate([part.stacks for part in parts]),
            np.concatenate([part.starts + base for part, base in zip(parts, bases, strict=False)]),
            np.concatenate([part.ends + base for part, base in zip(parts, bases, strict=False)]),
        )

    def take(self, chosen: Any) -> CopiedStacks:
        """Return some of the samples, of the same bytes."""
        return CopiedStacks(self.registers[chosen], self.stacks, self.starts[chosen], self.ends[chosen])
