"""Segments that TCP sends again: of a connection, and the answer to who asks for one (SYN-ACK).

The tracepoint of the former comes after the segment is sent; since Linux 6.17 with how that went, and where it was not
sent too. What is sent is counted by network namespace, whosever it is: the kernel counts them so (RetransSegs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R1, R6, R7, R8, R9, Register
from omn_kernel.btf.fields import get_fields
from omn_kernel.btf.spelling import spell_tracepoint

from omn_net.programs.owners import SocketOwners
from omn_net.programs.seen import SeenCounts
from omn_net.programs.states import REQUEST
from omn_net.socket_fields import SocketFields

_WORD = 32
_OUTCOME = 2
"""Which argument of tcp_retransmit_skb is how it went, on kernels that say so."""
HandOver = Callable[[TaskAssembly, Record, Register], None]


def make_event(subject: np.dtype[Any]) -> np.dtype[Any]:
    """Make the type of an event: how much was sent again, and of what (`subject`)."""
    return np.dtype([("ns", "u8"), ("segments", "u8"), ("bytes", "u8"), ("subject", subject)], align=True)


class RetransmitPrograms:
    """Writes the programs; each event goes to `hand_over`, which is told the record and the context.

    `owners` is None where nobody asks whose connections they are. `is_of_all` says that what is nobody's is wanted too;
    else `unowned` counts it. `seen` counts all that is sent again, whosever it is.
    """

    def __init__(
        self,
        subject: np.dtype[Any],
        sockets: SocketFields,
        owners: SocketOwners | None,
        hand_over: HandOver,
        *,
        is_of_all: bool,
        seen: SeenCounts,
    ) -> None:
        self._subject = subject
        self._event = make_event(subject)
        self._sockets = sockets
        self._owners = owners
        self._hand_over = hand_over
        self._is_of_all = is_of_all
        self._seen = seen
        self.unowned = LostCounter()

    def close(self) -> None:
        """Let go of the map."""
        self.unowned.close()

    def write_segment(self, program: TaskAssembly) -> None:
        """Write tcp_retransmit_skb(socket, segment[, outcome])."""
        event, subject = self._begin(program)
        if isinstance(program, KernelAssembly):
            self._write_segment(program, event, subject)
        elif isinstance(program, RecordedAssembly):
            self._write_told(program, event, subject)
        self._sockets.write(program, subject, R6, R7)
        self._end(program, event)

    def _write_told(self, program: RecordedAssembly, event: Record, subject: Record) -> None:
        """Set what a record tells: of the segment nothing but, since Linux 6.17, how it went."""
        if "err" in program.fields:
            program.read_record(R1, R6, program.fields["err"])
            program.jump_if(R1, "!=", 0, "done")
        self._set_owner(program, subject)
        program.set(event, "segments", 1)
        if "state" in (self._subject.names or ()):
            program.read_record(R1, R6, program.fields["state"])
            program.set(subject, "state", R1)

    def _write_segment(self, program: KernelAssembly, event: Record, subject: Record) -> None:
        """Set what the segment in the second argument and the socket in R7 tell."""
        hook = TypedTracepoint("tcp_retransmit_skb", program.types)
        if len(spell_tracepoint(program.types, hook.get_attach_id())) > _OUTCOME:
            program.read_argument(R1, R6, _OUTCOME)
            program.compute(R1, "<<=", _WORD)
            program.jump_if(R1, "!=", 0, "done")
        program.read_argument(R8, R6, 1)
        program.read_field(R1, R8, "sk_buff", "len")
        program.set(event, "bytes", R1)
        # What TCP notes of a segment lies in the room that each layer has in it.
        (room,) = get_fields(program.types, "sk_buff", "cb")
        program.compute(R8, "+=", room.offset)
        program.read_field(R1, R8, "tcp_skb_cb", "tcp_gso_segs", is_copied=True)
        program.set(event, "segments", R1)
        program.move(R9, R1)
        self._seen.emit_add(program, R7, R9)
        self._set_owner(program, subject)
        if "state" in (self._subject.names or ()):
            program.read_field(R1, R7, "sock", "__sk_common.skc_state")
            program.set(subject, "state", R1)

    def write_answer(self, program: TaskAssembly) -> None:
        """Write tcp_retransmit_synack(listening socket, request): a segment without bytes."""
        event, subject = self._begin(program)
        program.set(event, "segments", 1)
        if isinstance(program, KernelAssembly):
            self._seen.emit_add(program, R7)
        self._set_owner(program, subject)
        program.read_argument(R8, R6, 1)
        if "state" in (self._subject.names or ()):
            program.set(subject, "state", REQUEST)
        if isinstance(program, KernelAssembly):
            self._sockets.write_request(program, subject, R8)
        else:
            self._sockets.write(program, subject, R6, R7)
        self._end(program, event)

    def _begin(self, program: TaskAssembly) -> tuple[Record, Record]:
        """Set R6 to the context and R7 to the socket, and return the event and its subject, empty."""
        event = program.reserve(self._event)
        program.clear(event)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        return event, Record(event.base, self._subject, event.locate("subject")[0])

    def _set_owner(self, program: TaskAssembly, subject: Record) -> None:
        if self._owners is None:
            return
        unknown, end = program.make_label("unknown"), program.make_label("owner")
        self._owners.copy_owner(program, R7, subject, unknown=unknown, otherwise="done")
        program.jump(end)
        program.label(unknown)
        if not self._is_of_all:
            self.unowned.emit_count(program)
            program.jump("done")
        program.label(end)

    def _end(self, program: TaskAssembly, event: Record) -> None:
        self._hand_over(program, event, R6)
        program.label("done")
        program.leave(0)
