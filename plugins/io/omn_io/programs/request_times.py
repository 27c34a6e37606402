"""How long block requests take, by device and power of two: as little as a histogram needs of each.

The entry of a request outlives it, since the kernel uses its memory for the next: nothing is inserted or removed while
a device works, and the rows are each cpu's own. A time of 0 is of no request that is under way.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.drains import SwappedRows
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import compute_bucket, read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9

from omn_io.programs.requests import MOST_REQUESTS, find_request_argument, read_device, skip_other_devices

KEY = np.dtype([("device", np.uint32), ("bucket", np.uint32)])
ROW = np.dtype([("requests", np.uint64), ("total_ns", np.uint64)])
_REQUEST = np.dtype([("request", np.uint64)])
_TIME = np.dtype([("issued_ns", np.uint64)])


class RequestTimes:
    """Writes the programs on a request's issue and completion, of one device or (None) of all.

    `lost` counts requests that found no room, `unknown` those that complete and were not seen before.
    """

    def __init__(self, device: int | None) -> None:
        self._device = device
        self._times = Map(MapType.HASH, "request_times", _REQUEST, _TIME, MOST_REQUESTS)
        self.lost = LostCounter()
        self.unknown = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self._times.close()
        self.lost.close()
        self.unknown.close()

    def write_issue(self, program: KernelAssembly) -> None:
        """Write block_rq_issue(request), before Linux 5.11 block_rq_issue(queue, request)."""
        request, time = program.reserve(_REQUEST), program.reserve(_TIME)
        program.read_argument(R7, R1, find_request_argument(program.types, "block_rq_issue"))
        skip_other_devices(program, self._device, "done")
        program.set(request, "request", R7)
        read_clock(program, R9)
        program.look_up(self._times, request)
        with program.when(R0, "!=", 0):
            # One that is issued again counts from its first issue.
            program.get(R1, Record(R0, _TIME), "issued_ns")
            program.jump_if(R1, "!=", 0, "done")
            program.set(Record(R0, _TIME), "issued_ns", R9)
            program.jump("done")
        program.set(time, "issued_ns", R9)
        program.update(self._times, request, time)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)
        program.label("done")
        program.leave(0)

    def write_complete(self, program: KernelAssembly, rows: SwappedRows) -> None:
        """Write block_rq_complete(request, status, bytes), where `__data_len` is what the request still lacked."""
        request, key, empty = (program.reserve(layout) for layout in (_REQUEST, KEY, ROW))
        program.move(R6, R1)
        program.read_argument(R7, R1, 0)
        skip_other_devices(program, self._device, "done")
        program.read_argument(R9, R6, 2)
        program.read_field(R1, R7, "request", "__data_len")
        program.jump_if(R1, ">", R9, "done")
        program.set(request, "request", R7)
        program.look_up(self._times, request)
        program.jump_if(R0, "==", 0, "unknown")
        program.get(R8, Record(R0, _TIME), "issued_ns")
        program.jump_if(R8, "==", 0, "unknown")
        program.set(Record(R0, _TIME), "issued_ns", 0)
        read_clock(program, R9)
        program.compute(R9, "-=", R8)
        program.move(R2, R9)
        compute_bucket(program, R1, R2, R3)
        program.set(key, "bucket", R1)
        read_device(program, R8, R7)
        program.set(key, "device", R8)
        program.clear(empty)
        rows.find_or_make(program, key, empty)
        program.jump_if(R0, "==", 0, "done")
        program.add_to(Record(R0, ROW), "total_ns", R9)
        program.move(R1, 1)
        program.add_to(Record(R0, ROW), "requests", R1)
        program.jump("done")
        program.label("unknown")
        self.unknown.emit_count(program)
        program.label("done")
        program.leave(0)
