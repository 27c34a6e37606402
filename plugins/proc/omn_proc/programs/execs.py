"""Programs that are executed, seen where the kernel has put the new one in the old one's place (exec_binprm).

The arguments lie at the top of the new program's stack by then, one after the other, each ending in a zero byte: a
program reads exactly what lies there, so that nothing is lost to what is not mapped behind them. A record holds a piece
of them, the first with all that is said of the event: most arguments need one record, and none needs a long one.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import STAMP, Transport

from omn_proc.arguments import MOST_BYTES

PIECE_BYTES = 256
UNREAD = -1
"""The length of a piece that could not be read: its page was not there."""

_FIELDS = [(STAMP, "u8"), ("thread", "u4"), ("piece", "u4")]
_ARGUMENTS = [("all_bytes", "u8"), ("length", "i8"), ("text", f"S{PIECE_BYTES}")]


def make_record(fields: TaskFields, *, has_arguments: bool) -> np.dtype[Any]:
    """Make the type of a record: `thread` and the stamp say of which event it is, `piece` which of its pieces."""
    return np.dtype([*_FIELDS, *(_ARGUMENTS if has_arguments else []), *fields.layout], align=True)


@attrs.frozen(kw_only=True)
class ExecProgram:
    """Writes the program on sched_process_exec. `lost` counts pieces after the first that found no room."""

    _record: np.dtype[Any]
    _tasks: TargetTasks
    _fields: TaskFields
    _transport: Transport
    _lost: LostCounter

    def write_exec(self, program: KernelAssembly) -> None:
        """Write sched_process_exec(task, its number before, binary)."""
        record = program.reserve(self._record)
        program.clear(record)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        self._tasks.filter.keep(program, R7, "done")
        read_clock(program, R0)
        program.set(record, STAMP, R0)
        program.read_field(R1, R7, "task_struct", "pid")
        program.set(record, "thread", R1)
        self._fields.write(program, record, R7)
        if "text" in (self._record.names or ()):
            self._write_pieces(program, record)
        else:
            self._transport.write(program, record, R6)
        program.label("done")
        program.leave(0)

    def _write_pieces(self, program: KernelAssembly, record: Record) -> None:
        """Emit what hands the arguments over piece by piece: R8 is where the next begins, R9 how much is left."""
        program.read_field(R8, R7, "task_struct", "mm.arg_start")
        program.read_field(R9, R7, "task_struct", "mm.arg_end")
        program.compute(R9, "-=", R8)
        program.set(record, "all_bytes", R9)
        for piece in range(MOST_BYTES // PIECE_BYTES):
            program.set(record, "piece", piece)
            self._read_piece(program, record)
            self._transport.write(program, record, R6, lost=self._lost if piece else None)
            program.jump_if(R9, "s<=", PIECE_BYTES, "done")
            program.compute(R8, "+=", PIECE_BYTES)
            program.compute(R9, "-=", PIECE_BYTES)

    def _read_piece(self, program: KernelAssembly, record: Record) -> None:
        program.move(R2, R9)
        with program.when(R2, ">", PIECE_BYTES):
            program.move(R2, PIECE_BYTES)
        program.set(record, "length", R2)
        program.point_at(R1, record, "text")
        program.move(R3, R8)
        program.call("probe_read_user")
        with program.when(R0, "!=", 0):
            program.set(record, "length", UNREAD)
