"""How long block requests take, by device and power of two: as little as a histogram needs of each.

Nothing is inserted and nothing is looked for while a device works: a request's time lies where its number leads, and
what a cpu adds up of a device too.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.drains import SwappedRows
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.pieces import compute_bucket, read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9

from omn_io.programs.claimed_places import compute_place, leave_place
from omn_io.programs.completions import CompletionCounts
from omn_io.programs.issue_times import IssueTimes
from omn_io.programs.requests import find_request_argument, read_device, skip_other_devices

DEVICES = 128
"""How many devices have rows between two drains: a power of two."""

BUCKETS = 65
"""Those of a number of 64 bits, and of 0."""

TIMES = np.dtype([("requests", np.uint64), ("total_ns", np.uint64)])
PLACE = np.dtype([("place", np.uint32)])
DEVICE = np.dtype([("device", np.uint64), ("buckets", TIMES, BUCKETS)])
"""What one cpu adds up of a device, which is called by its number and one: 0 is a place that is nobody's yet."""

_DEVICE = np.dtype([("number", np.uint64)])
_TRIES = 8


class RequestTimes:
    """Writes the programs on a request's issue and completion, of one device or (None) of all.

    `completions` counts those that complete, `lost` requests that found no room, `unknown` those that complete and were
    not seen before, since they had begun then, `crowded` those of devices that found no row.
    """

    def __init__(self, device: int | None, completions: CompletionCounts) -> None:
        self._device = device
        self._completions = completions
        self._times = IssueTimes()
        self.lost = self._times.lost
        self.unknown = LostCounter()
        self.crowded = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self._times.close()
        self.unknown.close()
        self.crowded.close()

    def write_issue(self, program: KernelAssembly) -> None:
        """Write block_rq_issue(request), before Linux 5.11 block_rq_issue(queue, request)."""
        program.read_argument(R7, R1, find_request_argument(program.types, "block_rq_issue"))
        skip_other_devices(program, self._device, "done")
        self._times.keep(program)
        program.label("done")
        program.leave(0)

    def write_complete(self, program: KernelAssembly, rows: SwappedRows) -> None:
        """Write block_rq_complete(request, status, bytes), where `__data_len` is what the request still lacked."""
        program.move(R6, R1)
        program.read_argument(R7, R1, 0)
        device = program.reserve(_DEVICE)
        skip_other_devices(program, self._device, "done")
        program.read_argument(R9, R6, 2)
        program.read_field(R1, R7, "request", "__data_len")
        program.jump_if(R1, ">", R9, "done")
        read_device(program, R8, R7)
        program.set(device, "number", R8)
        self._completions.skip_unaccounted(program, "counted")
        self._completions.count(program, R8, "completed")
        program.label("counted")
        self._times.take(program, "unseen")
        read_clock(program, R9)
        program.compute(R9, "-=", R8)
        program.move(R2, R9)
        compute_bucket(program, R8, R2, R3)
        program.get(R6, device, "number")
        program.compute(R6, "+=", 1)
        self._find_device(program, rows)
        program.compute(R8, "*=", TIMES.itemsize)
        program.compute(R0, "+=", R8)
        times = Record(R0, TIMES, Record(R0, DEVICE).locate("buckets")[0])
        program.add_to(times, "total_ns", R9)
        program.move(R1, 1)
        program.add_to(times, "requests", R1)
        program.jump("done")
        program.label("unseen")
        program.get(R8, device, "number")
        self._completions.tell_unseen(program, R8, "done")
        self.unknown.emit_count(program)
        program.label("done")
        program.leave(0)

    def _find_device(self, program: KernelAssembly, rows: SwappedRows) -> None:
        """Set R0 to what this cpu adds up of the device in R6; R7 holds nothing of the program's after it.

        Its place is where its number leads, or one of the next. An interrupt may take the place meanwhile: the sum of
        both numbers is neither's, and whoever sees it goes on.
        """
        place = program.reserve(PLACE)
        rows.find_map(program, otherwise="done")
        program.move(R7, R0)
        for step in range(_TRIES):
            taken = program.make_label("taken")
            compute_place(program, R6, step, DEVICES)
            program.set(place, "place", R1)
            program.move(R1, R7)
            program.point_at(R2, place)
            program.call("map_lookup_elem")
            program.jump_if(R0, "==", 0, "done")
            device = Record(R0, DEVICE)
            program.get(R1, device, "device")
            program.jump_if(R1, "==", R6, "found")
            program.jump_if(R1, "!=", 0, taken)
            program.add_to(device, "device", R6)
            program.get(R1, device, "device")
            program.jump_if(R1, "==", R6, "found")
            leave_place(program, device, "device", R6)
            program.label(taken)
        self.crowded.emit_count(program)
        program.jump("done")
        program.label("found")
