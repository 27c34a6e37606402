"""proc.exec by a program in the kernel: each program that was executed, with its arguments, however short it lived."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_number_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import STAMP

from omn_core.api import Batch, BoundTarget, Column, ResolvedRequest, RunContext
from omn_proc.arguments import MOST_BYTES, spell_arguments
from omn_proc.programs.execs import UNREAD, ExecProgram, make_record

_SHOWN = ("argv", "argv_bytes")
Records = npt.NDArray[Any]


class Execs(StreamCollector):
    """An event for each program that a process of the target executed, under the name that it has from there."""

    _cut = _unread = _lost_pieces = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a process, and open what needs no target."""
        self._fields = TaskFields(resolved)
        self._has_arguments = any(resolved.shows(name) for name in _SHOWN)
        # A count's only reading is that of the close, until when its records would fill their memory.
        self.reads_between = resolved.mode == "count"
        self._pieces: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that records come."""
        self.record = make_record(self._fields, has_arguments=self._has_arguments)
        super().open_maps()
        self._lost = self.hold(LostCounter())

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program."""
        written = ExecProgram(
            record=self.record,
            tasks=self.tasks,
            fields=self._fields,
            transport=self.transport,
            lost=self._lost,
        )
        self.load_tracepoint("sched_process_exec", written.write_exec)
        self._fields.look()

    def detach(self) -> None:
        """Keep how many pieces of arguments were lost."""
        super().detach()
        self._lost_pieces = self._lost.read_count()

    def make_events(self, records: Records) -> Batch:
        """Make the events of records, of which those after an event's first continue its arguments."""
        if self._has_arguments:
            for one in records[records["piece"] > 0]:
                length = int(one["length"])
                self._pieces[int(one[STAMP]), int(one["thread"])].append(
                    bytes(one["text"]).ljust(length, b"\0")[:length]
                )
        return super().make_events(records[records["piece"] == 0])

    def make_columns(self, records: Records) -> Columns:
        """Make columns of programs."""
        names = self.context.names
        keys, attributes = self._fields.make_columns(records, names)
        made = {"execs": Column(np.ones(len(records), np.int64))}
        if self._has_arguments:
            self._cut = int(np.count_nonzero(records["all_bytes"] > MOST_BYTES))
            self._unread = int(np.count_nonzero(records["length"] == UNREAD))
            made["argv"] = Column.of([self._find_arguments(one) for one in records], names)
            made["argv_bytes"] = make_number_column(records["all_bytes"])
        return Columns(keys, {**made, **attributes})

    def _find_arguments(self, record: Any) -> bytes | None:
        """Find an event's arguments, separated by spaces; None where they could not be read."""
        length = int(record["length"])
        if length == UNREAD:
            return None
        first = bytes(record["text"]).ljust(length, b"\0")[:length]
        whole = first + b"".join(self._pieces.pop((int(record[STAMP]), int(record["thread"])), ()))
        return spell_arguments(whole)

    def degradations(self) -> tuple[str, ...]:
        """Say what is not there of the arguments."""
        said = [
            (self._cut, f"programs had more than {MOST_BYTES} bytes of arguments, which are cut there"),
            (self._unread, "programs' arguments were not in memory and are absent"),
            (self._lost_pieces, "pieces of longer arguments found no room, which are cut there"),
        ]
        return tuple(f"{count} {what}" for count, what in said if count)
