"""What programs could not hand over, counted by them."""

from __future__ import annotations

import numpy as np

from omn_kernel.bpf.assembly import Assembly, Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.registers import R1, R2, Register

_COUNT = np.dtype([("lost", np.uint64)])


class LostCounter(Map):
    """How often programs on all cpus found no room for something."""

    def __init__(self) -> None:
        super().__init__(MapType.ARRAY, "lost", np.uint32, _COUNT, 1)

    def emit_count(self, program: Assembly, count: Register | int = 1) -> None:
        """Emit what counts one more, or as many as a register of R6 to R9 says.

        R1 and R2 hold nothing of the program's after it.
        """
        program.point_into(R1, self)
        program.move(R2, count)
        program.add_to(Record(R1, self.value), "lost", R2)

    def read_count(self) -> int:
        """Read how often it was so far."""
        return int(self.find(0)["lost"])
