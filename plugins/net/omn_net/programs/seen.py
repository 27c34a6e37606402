"""How much programs saw in each of some network namespaces, which count it themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, Register

_NAMESPACE = np.dtype([("inode", "u4")])
_SEEN = np.dtype([("count", "u8")])


class SeenCounts:
    """A count for each of some namespaces, by the kernel's number of it; of others nothing is counted."""

    def __init__(self, namespaces: Sequence[int]) -> None:
        self._has_any = bool(namespaces)
        self._counts = Map(MapType.HASH, "seen", _NAMESPACE, _SEEN, max(1, len(namespaces)))
        for inode in namespaces:
            self._counts.update(inode, 0)

    def close(self) -> None:
        """Let go of the map."""
        self._counts.close()

    def emit_add(self, program: KernelAssembly, sock: Register, count: Register | int = 1) -> None:
        """Emit what adds to the count of a socket's namespace. R0 to R5 hold nothing of the program's after it.

        `sock` points to its struct sock; the registers are of R6 to R9.
        """
        if not self._has_any:
            return
        namespace = program.reserve(_NAMESPACE)
        program.read_field(R1, sock, "sock", "__sk_common.skc_net.net.ns.inum")
        program.set(namespace, "inode", R1)
        program.look_up(self._counts, namespace)
        with program.when(R0, "!=", 0):
            program.move(R1, count)
            program.add_to(Record(R0, _SEEN), "count", R1)

    def read(self) -> dict[int, int]:
        """Read the counts."""
        seen = self._counts.read()
        return dict(zip(seen.keys["inode"].tolist(), seen.values["count"].tolist(), strict=True))
