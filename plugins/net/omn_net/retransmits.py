"""net.tcp.retransmit: segments that TCP sends again, each an event, or added up in the kernel by what divides them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.choosing import ChosenCollector
from omn_kernel.bpf.collecting import Counts, ProgramCollector
from omn_kernel.bpf.columns import Columns, keep_where, make_named_column, make_number_column
from omn_kernel.bpf.filters import AnyTask
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.record_arguments import reads_records
from omn_kernel.bpf.registers import R0, R1, Register
from omn_kernel.bpf.rows import RowCollector
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.tasks import TaskFields

from omn_core.api import Batch, BoundTarget, Column, ResolvedRequest, RunContext
from omn_net.lifetimes import name_state
from omn_net.namespace_counts import NamespaceCounts, compute_sent_again
from omn_net.programs.owners import MOST_SOCKETS, SocketOwners
from omn_net.programs.retransmits import RetransmitPrograms, make_event
from omn_net.programs.seen import SeenCounts
from omn_net.socket_fields import SocketFields

_WHOSE = frozenset({"task", "pid", "ppid", "proc", "comm", "cgroup"})


class Retransmits(ProgramCollector, ABC):
    """The programs, whatever becomes of their events. Whose a connection is is followed only where that is asked."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a connection and of whose it is, and open what needs no target."""
        self._task_fields = TaskFields(resolved)
        # A record does not tell of how many bytes a segment is.
        self.measured = ("segments",) if reads_records(resolved) else ("segments", "bytes")
        self._socket_fields = SocketFields(resolved)
        state = [("state", "u8")] if resolved.shows("state") else []
        own = [("is_owned", "u8"), *state, *self._task_fields.layout, *self._socket_fields.layout]
        self.subject = np.dtype(own, align=True)
        super().prepare(resolved, context)

    @abstractmethod
    def hand_over(self, program: TaskAssembly, event: Record, context: Register) -> None:
        """Emit what becomes of an event."""

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs, those that remember whose sockets are before those that ask."""
        self._task_fields.look()
        is_of_all = isinstance(self.tasks.filter, AnyTask)
        owners = None
        if not is_of_all or _WHOSE.intersection(self._task_fields.shown):
            owners = self.hold(SocketOwners(self.tasks, self._task_fields, self.subject))
            self.count_lost(owners.lost, f"sockets found no room among the {MOST_SOCKETS} of which it is known whose")
            self.load_event("inet_sock_set_state", owners.write_change)
            self.load_event("tcp_rcv_space_adjust", owners.write_taking)
        # A record does not tell of which namespace a segment is, nor of how many a large one is.
        self._counts = None if self.reads_records else NamespaceCounts(compute_sent_again)
        self._seen = self.hold(SeenCounts(() if self._counts is None else self._counts.inodes))
        written = RetransmitPrograms(
            self.subject, self._socket_fields, owners, self.hand_over, is_of_all=is_of_all, seen=self._seen
        )
        self.hold(written)
        self.count_lost(written.unowned, "segments were sent again of connections of which no process was seen")
        self.load_event("tcp_retransmit_skb", written.write_segment)
        self.load_event("tcp_retransmit_synack", written.write_answer)

    def read_made(self) -> Counts:
        """Read what the kernel counts of each namespace that can be looked into, whosever the segments are."""
        return {} if self._counts is None else self._counts.read()

    def read_seen(self) -> Counts:
        """Read what was seen of each of them."""
        return self._seen.read()

    def make_subjects(self, subjects: npt.NDArray[Any]) -> tuple[Mapping[str, Column], Mapping[str, Column]]:
        """Make the keys and the attributes of what was sent again."""
        names = self.context.names
        is_owned = subjects["is_owned"] != 0
        whose, named = (
            {name: keep_where(column, is_owned) for name, column in columns.items()}
            for columns in self._task_fields.make_columns(subjects, names)
        )
        keys, ends = self._socket_fields.make_columns(subjects, names)
        if self.resolved.shows("state"):
            keys = {**keys, "state": make_named_column(subjects["state"], name_state, names)}
        return {**keys, **whose}, {**ends, **named}


class RetransmitRecords(Retransmits, StreamCollector):
    """Each by itself."""

    def open_maps(self) -> None:
        """Open the way that events come."""
        self.record = make_event(self.subject)
        super().open_maps()

    def hand_over(self, program: TaskAssembly, event: Record, context: Register) -> None:
        """Emit what stamps an event and hands it over."""
        read_clock(program, R0)
        program.set(event, "ns", R0)
        self.transport.write(program, event, context)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of events."""
        keys, attributes = self.make_subjects(records["subject"])
        measured = {name: make_number_column(records[name]) for name in self.measured}
        return Columns(keys, {**measured, **attributes})


class RetransmitRows(Retransmits, RowCollector):
    """A row for each value of what divides the answer, with what came to it."""

    row = np.dtype([("segments", np.uint64), ("bytes", np.uint64)])

    def open_maps(self) -> None:
        """Open the maps of rows."""
        self.key = self.subject
        entry = self.resolved.entry
        self._is_divided = any(map(self.resolved.is_divided_by, (*entry.keys, *entry.attributes)))
        super().open_maps()

    def hand_over(self, program: TaskAssembly, event: Record, context: Register) -> None:
        """Emit what adds an event to its row."""
        empty, end = program.reserve(self.row), program.make_label("added")
        program.clear(empty)
        subject = Record(event.base, self.subject, event.locate("subject")[0])
        self.rows.find_or_make(program, subject, empty)
        program.jump_if(R0, "==", 0, end)
        for field in self.measured:
            program.get(R1, event, field)
            program.add_to(Record(R0, self.row), field, R1)
        program.label(end)

    def sample(self, now_ns: int) -> Batch:
        """Take the rows. Where nothing divides the answer, that nothing was sent again is a zero."""
        batch = super().sample(now_ns)
        if len(batch) or self._is_divided:
            return batch
        nothing = {name: Column(np.zeros(1, np.int64)) for name in self.measured}
        weight = None if self.resolved.mode == "poll" else np.zeros(1, np.int64)
        return Batch(np.array([self.context.clock()]), None, {}, nothing, weight)

    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of rows: what an interval came to, or each segment counted as one."""
        keys, attributes = self.make_subjects(entries.keys)
        segments = make_number_column(entries.values["segments"])
        if self.resolved.mode == "poll":
            measured = {name: make_number_column(entries.values[name]) for name in self.measured}
            return Columns(keys, {**measured, **attributes})
        return Columns(keys, {"segments": Column(np.ones(len(entries), np.int64)), **attributes}, segments.values)


class SegmentsSentAgain(ChosenCollector):
    """Added up in the kernel where sums are all that is asked, else one by one."""

    def choose(self, resolved: ResolvedRequest) -> RetransmitRecords | RetransmitRows:
        """Choose rows of a polled source, and of a count of segments."""
        asked = {resolved.value, *resolved.filter_fields, *(emit.attribute for emit in resolved.emits)}
        adds_up = resolved.mode == "poll" or (resolved.mode == "count" and "bytes" not in asked)
        self.reads_between = not adds_up
        return RetransmitRows() if adds_up else RetransmitRecords()
