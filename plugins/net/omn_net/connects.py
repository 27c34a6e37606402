"""net.tcp.connect: connections that the target's tasks ask for, each an event when it is answered."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import numpy as np
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.spans import Records, SpanRecords

from omn_core.api import BoundTarget, Column, ResolvedRequest, RunContext
from omn_net.programs.connects import FIELDS, MOST_CONNECTS, UNANSWERED, UNTOLD, ConnectProgram
from omn_net.programs.states import ESTABLISHED
from omn_net.socket_fields import SocketFields

_STATE_BITS = 8
_FOLLOWING = "bpf:fentry"
_CALLS = ("tcp_v4_connect", "tcp_v6_connect")
"""The kernel's functions that connect(2) is of; one without IPv6 has the first alone."""
_OUTCOMES = {
    0: "abandoned",
    UNTOLD: "failed",
    errno.ECONNREFUSED: "refused",
    errno.ETIMEDOUT: "timed-out",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
}


class Connects(SpanRecords):
    """An event for each connection that the target asked for, when it is made or fails.

    Where calls are followed, one that fails by itself is among them, with what it returned. One that has no answer when
    the window closes has an event then, of its time until there.
    """

    began, lasted = "asked_ns", "connect_ns"
    _unknown = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a connection, and open what needs no target."""
        self._sockets = SocketFields(resolved)
        self._follows_calls = resolved.backend.id == _FOLLOWING
        self.layout = [*FIELDS, *self._sockets.layout]
        super().prepare(resolved, context)

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program on the changes of a socket's state, and before it those on the call where it is followed."""
        self._program = self.hold(
            ConnectProgram(self.record, self.tasks, self.task_fields, self._sockets, follows_calls=self._follows_calls)
        )
        reason = f"connections were asked for while {MOST_CONNECTS} others, as many as are remembered, had no answer"
        self.count_lost(self._program.lost, reason)
        self.count_lost(self._program.missed, "connections had an answer, and no tracepoint told of it")
        written = self._program
        self.load_tracepoint("tcp_destroy_sock", written.write_destroy)
        if self._follows_calls:
            for function in filter(self.types.find_function, _CALLS):
                self.load_function(
                    function, lambda program: written.write_return(program, self.transport), is_exit=True
                )
        self.load_tracepoint("inet_sock_set_state", lambda program: written.write_change(program, self.transport))
        if self._follows_calls:
            for function in filter(self.types.find_function, _CALLS):
                self.load_function(function, written.write_call)

    def get_spans(self) -> Map:
        """Return the connections that have no answer yet."""
        return self._program.asked

    def detach(self) -> None:
        """Keep how many were not seen to be asked for."""
        super().detach()
        self._unknown = self._program.unknown.read_count()

    def end_at(self, records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
        """End at the close what had no answer then."""
        records["state"][records["ns"] > closed_ns] = UNANSWERED
        return super().end_at(records, left, closed_ns)

    def make_columns(self, records: Records) -> Columns:
        """Make columns of connections."""
        names = self.context.names
        whose, named = self.task_fields.make_columns(records, names)
        keys, ends = self._sockets.make_columns(records, names)
        # One number for both, so that each different outcome is named once.
        codes = records["error"].astype(np.int64) << _STATE_BITS | records["state"]
        measured = {
            "connect_ns": make_number_column(records["connect_ns"]),
            "connects": Column(np.ones(len(records), np.int64)),
            "outcome": make_named_column(codes, _name_code, names),
        }
        return Columns({**keys, **whose}, {**measured, **ends, **named})

    def fields(self) -> Mapping[str, int]:
        """Return how many had been asked for before, by whomever, and how many had no answer at the end."""
        return {**super().fields(), "begun_before": self._unknown}


def _name_code(code: int) -> str:
    return name_outcome(code & ((1 << _STATE_BITS) - 1), code >> _STATE_BITS)


def name_outcome(state: int, error: int) -> str:
    """Name what became of a connection by the state that it went to, and the errno of one that failed."""
    if state == UNANSWERED:
        return "unanswered"
    if state == ESTABLISHED:
        return "established"
    return _OUTCOMES.get(error) or errno.errorcode.get(error, f"errno {error}")
