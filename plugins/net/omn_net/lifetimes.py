"""net.tcp.lifetime: connections from their birth to their close, with what they moved, each an event when it ends."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.collecting import Counts
from omn_kernel.bpf.columns import Columns, keep_where, make_named_column, make_number_column
from omn_kernel.bpf.spans import Records
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.btf.fields import get_enumerator
from omn_kernel.sock_diag import TCP_STATES

from omn_core.api import Batch, BoundTarget, Column, Losses, ResolvedRequest, RunContext
from omn_net.namespace_counts import NamespaceCounts, compute_taken
from omn_net.programs.lifetimes import MOST_CONNECTIONS, NOBODY, LifetimePrograms, make_record
from omn_net.programs.seen import SeenCounts
from omn_net.programs.states import CLOSING, FIN_WAIT1, FIN_WAIT2, LAST_ACK
from omn_net.socket_fields import SocketFields

_FINISHED = (FIN_WAIT1, FIN_WAIT2, CLOSING, LAST_ACK)
"""The states in which this end has sent that it is finished."""


class Lifetimes(StreamCollector):
    """An event for each connection of the target that was established and ends, all of it within the window."""

    _unknown = _open = _unowned = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a task and of a connection, and open what needs no target."""
        self._task_fields = TaskFields(resolved)
        self._socket_fields = SocketFields(resolved)
        # A count's only reading is that of the close, until when its records would fill their memory.
        self.reads_between = resolved.mode == "count"
        self._ended: Records | None = None
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that ended connections come."""
        self.record = make_record(self._task_fields, self._socket_fields)
        super().open_maps()

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs, that on a socket's end before those that remember it."""
        self._task_fields.look()
        if not self.reads_records:
            self._done_bit = get_enumerator(self.types, "sock_flags", "SOCK_DONE")
        # A record does not tell of which namespace a connection is.
        self._counts = None if self.reads_records else NamespaceCounts(compute_taken)
        self._seen = self.hold(SeenCounts(() if self._counts is None else self._counts.inodes))
        self._programs = self.hold(LifetimePrograms(self.tasks, self._task_fields, self._socket_fields, self._seen))
        self.count_lost(self._programs.missed, "connections ended, and no tracepoint told of it")
        reason = f"connections began while there were {MOST_CONNECTIONS} others, as many as are remembered"
        self.count_lost(self._programs.lost, reason)
        written = self._programs
        self.load_event("tcp_destroy_sock", lambda program: written.write_destroy(program, self.transport))
        self.load_event("inet_sock_set_state", lambda program: written.write_change(program, self.transport))

    def read_made(self) -> Counts:
        """Read how many connections were taken in each namespace that can be looked into, whosever they are."""
        return {} if self._counts is None else self._counts.read()

    def read_seen(self) -> Counts:
        """Read how many of them were seen."""
        return self._seen.read()

    def detach(self) -> None:
        """Keep the connections whose socket is there still, and how many there were before."""
        super().detach()
        self._unknown = self._programs.unknown.read_count()
        left = self._programs.connections.read().values
        is_open = left["ns"] == 0
        self._open = int(np.count_nonzero(is_open & (left["is_made"] != 0) & (left["is_kept"] != 0)))
        self._ended = left[~is_open]
        if not self._programs.is_of_all:
            self._unowned = self._programs.unowned.read_count() + len(self._ended)

    def make_events(self, records: Records) -> Batch:
        """Make the events of records and, of the machine, of connections that ended before anybody let go of them."""
        if self._ended is not None and self._programs.is_of_all:
            records = np.concatenate([records, self._ended])
            records = records[np.argsort(records["ns"], kind="stable")]
        return super().make_events(records)

    def make_columns(self, records: Records) -> Columns:
        """Make columns of connections; nothing says whose those are of which no process was seen."""
        names = self.context.names
        is_owned = records["attributed"] != NOBODY
        whose, named = (
            {name: keep_where(column, is_owned) for name, column in columns.items()}
            for columns in self._task_fields.make_columns(records, names)
        )
        keys, ends = self._socket_fields.make_columns(records, names)
        measured = {
            "lifetime_ns": Column(records["ns"].astype(np.int64) - records["born_ns"].astype(np.int64)),
            **({} if self.reads_records else self._make_counts(records)),
            "connections": Column(np.ones(len(records), np.int64)),
            "state": make_named_column(records["state"], name_state, names),
            "attributed": make_named_column(records["attributed"], name_state, names),
            "opened": make_named_column(records["is_asked"], ("taken", "asked").__getitem__, names),
        }
        return Columns({**keys, **whose}, {**measured, **ends, **named})

    def _make_counts(self, records: Records) -> Mapping[str, Column]:
        """Make the columns of what sockets counted, which no record of a tracepoint tells."""
        return {
            "rx_bytes": Column(compute_received(records, self._done_bit)),
            "tx_bytes": Column(compute_sent(records)),
            "retransmits": make_number_column(records["retransmits"]),
        }

    def losses(self) -> Losses:
        """Return what was lost, with the connections that may be the target's: no process was seen to change them."""
        losses = super().losses()
        if not self._unowned:
            return losses
        reason = f"{self._unowned} connections ended of which no process was seen"
        return attrs.evolve(losses, dropped=losses.dropped + self._unowned, reasons=(*losses.reasons, reason))

    def fields(self) -> Mapping[str, int]:
        """Return how many were there before and ended, of whomever, and how many of the target's are there still."""
        return {**super().fields(), "begun_before": self._unknown, "unfinished": self._open}


def compute_received(records: Records, done_bit: int) -> npt.NDArray[np.int64]:
    """Compute the bytes that came in order; `done_bit` is the socket's flag that the other end has finished.

    The kernel counts it as one byte that the other end has finished.
    """
    has_finished = records["flags"] >> np.uint64(done_bit) & np.uint64(1)
    return np.asarray(records["received"] - has_finished, np.int64)


def compute_sent(records: Records) -> npt.NDArray[np.int64]:
    """Compute the bytes that the other end acknowledged.

    The kernel counts as one byte each what asks for a connection, and that this end has finished. The latter is the
    last that is sent, so that it was acknowledged where all is.
    """
    has_finished = np.isin(records["state"], _FINISHED) & (records["unacknowledged"] == records["write"])
    return np.asarray(records["acked"] - records["is_asked"] - has_finished, np.int64)


def name_state(state: int) -> str:
    """Name a state of TCP; NOBODY is none."""
    return "nobody" if state == NOBODY else TCP_STATES[state - 1]
