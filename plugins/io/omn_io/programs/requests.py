"""Block requests from their insertion to their completion, each in one entry from the first sight of it to the last.

The block layer inserts a request into a queue, issues it to its driver and completes it; some are issued straight away.
Whoever inserts a request asked for it; the task that happens to run when it is issued often only serves the queue. So
an entry begins at the insertion, and at the issue only of a request that was never inserted: of every task's requests,
since one that another's task inserted must not be taken for one that was not inserted at all.

A request that is put back is issued again and counts from its first issue. One that is merged into another ends there
without a completion of its own. A driver may complete a request piece by piece: the last one ends it. What is
remembered may be of one whose end passed no tracepoint, when another has its place: that began after it was issued.

The records of classic tracepoints name no request. There it is told by its device and its first sector, so that the
first piece ends it, and of two that begin at one sector at a time one is not known. It counts from its last issue:
what is remembered may be of one whose end the kernel passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9, Register
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.btf.spelling import spell_tracepoint
from omn_kernel.btf.types import Btf

from omn_io.programs.completions import CompletionCounts

MOST_REQUESTS = 1 << 14
"""How many requests are remembered at a time: a device has some hundred or thousand, and there may be many devices."""

OPERATION_BITS = 8
"""The lowest bits of a request's flags are its operation (REQ_OP_BITS of <linux/blk_types.h>)."""

REQUEST = [
    ("ns", "u8"),
    ("inserted_ns", "u8"),
    ("issued_ns", "u8"),
    ("sector", "u8"),
    ("bytes", "u4"),
    ("device", "u4"),
    ("flags", "u4"),
    ("status", "i4"),
    ("is_kept", "u4"),
]
"""What is remembered of a request; `is_kept` is 1 where its task is the target's. A time of 0 was not seen."""

_KEY = np.dtype([("request", np.uint64)])
_RECORDED_KEY = np.dtype([("sector", np.uint64), ("device", np.uint64)])
_MINOR_BITS = 20
_MERGE = "block_rq_merge"


def make_record(fields: TaskFields) -> np.dtype[Any]:
    """Make the type of what is remembered of a request and, of its task, what the answer shows."""
    return np.dtype([*REQUEST, *fields.layout], align=True)


def find_request_argument(types: Btf, tracepoint: str) -> int:
    """Find which argument of a tracepoint is the request: the last, which Linux 5.11 left as the only one."""
    number = types.find_tracepoint(tracepoint)
    return len(spell_tracepoint(types, number)) - 1 if number is not None else 0


def read_device(program: TaskAssembly, target: Register, request: Register) -> None:
    """Emit what sets a register to the number of the whole device that a request is for.

    Both registers are of R6 to R9, and R6 has the context where a record is read. A queue without a disk (a tape's, a
    controller's own) is number 0.
    """
    if isinstance(program, RecordedAssembly):
        program.read_record(target, R6, program.fields["dev"])
    elif isinstance(program, KernelAssembly):
        # Linux 5.17 keeps the disk with the queue, those before with the request.
        disk = "q.disk" if program.has_field("request_queue", "disk") else "rq_disk"
        program.read_field(target, request, "request", f"{disk}.major")
        program.compute(target, "<<=", _MINOR_BITS)
        program.read_field(R1, request, "request", f"{disk}.first_minor")
        program.compute(target, "|=", R1)


def skip_other_devices(program: TaskAssembly, device: int | None, otherwise: str) -> None:
    """Emit what goes to a label where the request in R7 is another device's than the one that is wanted, if one is."""
    if device is None:
        return
    read_device(program, R8, R7)
    program.move(R1, device)
    program.jump_if(R8, "!=", R1, otherwise)


def _read_letter(program: RecordedAssembly, target: Register) -> None:
    """Emit what sets a register to the letter of the operation of the record in R6 (blk_fill_rwbs).

    An F stands before the letter of what flushes first, and alone for a flush; DE erases for good.
    """
    letters, end = program.fields["rwbs"].offset, program.make_label("letter")
    program.load(target, R6, letters, 1)
    program.load(R1, R6, letters + 1, 1)
    with program.when(target, "==", ord("D")):
        program.jump_if(R1, "!=", ord("E"), end)
        program.move(target, R1)
    program.jump_if(target, "!=", ord("F"), end)
    for letter in "RWD":
        with program.when(R1, "==", ord(letter)):
            program.move(target, R1)
    program.label(end)


class RequestPrograms:
    """Writes the programs on a request's insertion, issue, merge and completion.

    `tasks` tells whose requests are wanted and `device`, a number as the kernel keeps it, of which device: None for
    all. `completions` counts those that complete. `lost` counts requests that found no room, `unknown` those that
    complete and were not seen before, since they had begun then.
    """

    def __init__(
        self,
        tasks: TaskFilter | None,
        fields: TaskFields,
        device: int | None,
        completions: CompletionCounts,
        *,
        reads_records: bool,
    ) -> None:
        self._key = _RECORDED_KEY if reads_records else _KEY
        self._tasks = tasks
        self._fields = fields
        self._device = device
        self._completions = completions
        self.record = make_record(fields)
        self.requests = Map(MapType.HASH, "requests", self._key, self.record, MOST_REQUESTS)
        self.lost = LostCounter()
        self.unknown = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self.requests.close()
        self.lost.close()
        self.unknown.close()

    def count_unfinished(self) -> int:
        """Count the target's requests that were issued and have not completed."""
        entries = self.requests.read().values
        return int(np.count_nonzero((entries["is_kept"] != 0) & (entries["issued_ns"] != 0)))

    def write_insert(self, program: TaskAssembly) -> None:
        """Write block_rq_insert(request), before Linux 5.11 block_rq_insert(queue, request)."""
        request = self._begin(program, "block_rq_insert")
        skip_other_devices(program, self._device, "done")
        self._remember(program, request, "inserted_ns")
        program.label("done")
        program.leave(0)

    def write_issue(self, program: TaskAssembly) -> None:
        """Write block_rq_issue, of which the arguments are those of the insertion."""
        request = self._begin(program, "block_rq_issue")
        skip_other_devices(program, self._device, "done")
        program.look_up(self.requests, request)
        program.jump_if(R0, "==", 0, "straight")
        program.move(R8, R0)
        seen = Record(R8, self.record)
        if isinstance(program, KernelAssembly):
            # Issued again, it was made before; one that was made after has the place of another.
            program.read_field(R9, R7, "request", "start_time_ns")
            program.get(R1, seen, "issued_ns")
            with program.when(R1, "!=", 0):
                program.jump_if(R9, ">", R1, "straight")
                program.jump("done")
        read_clock(program, R0)
        program.set(seen, "issued_ns", R0)
        self._describe(program, seen)
        program.jump("done")
        program.label("straight")
        self._remember(program, request, "issued_ns")
        program.label("done")
        program.leave(0)

    def write_merge(self, program: TaskAssembly) -> None:
        """Write block_rq_merge, of which the arguments are those of the insertion."""
        request = self._begin(program, "block_rq_merge")
        program.delete(self.requests, request)
        program.leave(0)

    def load(self, collector: ProgramCollector, hand_over: Callable[[TaskAssembly, Record], None]) -> None:
        """Load the programs, the last of a request's life first: none is seen to begin without its end.

        `hand_over` emits what becomes of a request that completes. R6 has the context then and R8 the entry, and both
        are to stay as they are.
        """
        collector.load_event("block_rq_complete", lambda program: self.write_complete(program, hand_over))
        # It is Linux 5.11's.
        if collector.has_event(_MERGE):
            collector.load_event(_MERGE, self.write_merge)
        collector.load_event("block_rq_issue", self.write_issue)
        collector.load_event("block_rq_insert", self.write_insert)

    def write_complete(self, program: TaskAssembly, hand_over: Callable[[TaskAssembly, Record], None]) -> None:
        """Write block_rq_complete(request, status, bytes), where `__data_len` is what the request still lacked."""
        request = self._begin(program, "block_rq_complete")
        skip_other_devices(program, self._device, "done")
        if isinstance(program, KernelAssembly):
            program.read_argument(R9, R6, 2)
            program.read_field(R1, R7, "request", "__data_len")
            program.jump_if(R1, ">", R9, "done")
        read_device(program, R8, R7)
        self._count_completed(program)
        program.look_up(self.requests, request)
        program.jump_if(R0, "==", 0, "unseen")
        program.move(R8, R0)
        seen = Record(R8, self.record)
        program.get(R1, seen, "is_kept")
        program.jump_if(R1, "==", 0, "forget")
        program.get(R1, seen, "issued_ns")
        program.jump_if(R1, "==", 0, "forget")
        read_clock(program, R0)
        program.set(seen, "ns", R0)
        if isinstance(program, KernelAssembly):
            program.read_argument(R1, R6, 1)
            program.set(seen, "status", R1)
        if self._tasks is not None:
            program.get(R9, seen, "device")
            self._completions.count(program, R9, "kept")
        hand_over(program, seen)
        program.label("forget")
        program.delete(self.requests, request)
        program.jump("done")
        program.label("unseen")
        if isinstance(program, KernelAssembly):
            self._completions.tell_unseen(program, R8, "done")
        self.unknown.emit_count(program)
        program.label("done")
        program.leave(0)

    def _count_completed(self, program: TaskAssembly) -> None:
        """Emit what counts the request in R7, of the device in R8, where the device does too."""
        uncounted = program.make_label("uncounted")
        if isinstance(program, KernelAssembly):
            self._completions.skip_unaccounted(program, uncounted)
        elif isinstance(program, RecordedAssembly):
            _read_letter(program, R9)
            program.jump_if(R9, "==", ord("F"), uncounted)
        self._completions.count(program, R8, "completed")
        program.label(uncounted)

    def _begin(self, program: TaskAssembly, tracepoint: str) -> Record:
        """Set R6 to the context, R7 to the request where one is told, and return the key that it is found by."""
        program.move(R6, R1)
        request = program.reserve(self._key)
        if isinstance(program, RecordedAssembly):
            program.read_record(R1, R6, program.fields["sector"])
            program.set(request, "sector", R1)
            program.read_record(R1, R6, program.fields["dev"])
            program.set(request, "device", R1)
        elif isinstance(program, KernelAssembly):
            is_end = tracepoint == "block_rq_complete"
            program.read_argument(R7, R1, 0 if is_end else find_request_argument(program.types, tracepoint))
            program.set(request, "request", R7)
        return request

    def _remember(self, program: TaskAssembly, request: Record, moment: str) -> None:
        """Begin the entry of the request in R7 with this moment and the task that runs."""
        entry = program.reserve(self.record)
        program.clear(entry)
        read_clock(program, R0)
        program.set(entry, moment, R0)
        self._describe(program, entry)
        program.point_to_current(R9)
        if self._tasks is not None:
            self._tasks.keep(program, R9, "another")
        program.set(entry, "is_kept", 1)
        self._fields.write(program, entry, R9)
        program.label("another")
        program.update(self.requests, request, entry)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)

    def _describe(self, program: TaskAssembly, entry: Record) -> None:
        """Set what the request in R7 is: its device, its sector, its size, its operation (of a record, its letter)."""
        if isinstance(program, RecordedAssembly):
            for field in ("sector", "bytes"):
                program.read_record(R1, R6, program.fields[field])
                program.set(entry, field, R1)
            _read_letter(program, R9)
            program.set(entry, "flags", R9)
        elif isinstance(program, KernelAssembly):
            for field, path in (("sector", "__sector"), ("bytes", "__data_len"), ("flags", "cmd_flags")):
                program.read_field(R1, R7, "request", path)
                program.set(entry, field, R1)
        read_device(program, R9, R7)
        program.set(entry, "device", R9)
