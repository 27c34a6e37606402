"""TCP connections from their birth to their close, told by the changes of a socket's state.

A connection that is asked for is born where its socket goes to SYN_SENT, one that is taken where the kernel makes a
socket for it, in SYN_RECV. It ends in CLOSE: whoever waits in TIME_WAIT then is no socket any more.

It belongs to the task that makes the first change of its state that a process makes: SYN_SENT, or of one that was taken
FIN_WAIT1 or LAST_ACK, where its process closes it. One that the other end breaks off goes to CLOSE by a packet, in
whoever's time that comes: it is kept until its process lets go of the socket (tcp_destroy_sock).
"""

from __future__ import annotations

import errno
from typing import Any

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import AnyTask
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9, Register
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import Transport

from omn_net.programs.seen import SeenCounts
from omn_net.programs.states import (
    CLOSE,
    ESTABLISHED,
    LISTEN,
    SYN_RECV,
    SYN_SENT,
    skip_kernels_own_changes,
    skip_other_protocols,
)
from omn_net.socket_fields import SocketFields

MOST_CONNECTIONS = 1 << 15
"""How many connections are remembered at a time, from their birth to their close."""
NOBODY = 0
FIELDS = [
    ("ns", "u8"),
    ("born_ns", "u8"),
    ("acked", "u8"),
    ("received", "u8"),
    ("flags", "u8"),
    ("unacknowledged", "u4"),
    ("write", "u4"),
    ("retransmits", "u4"),
    ("attributed", "u1"),
    ("state", "u1"),
    ("is_asked", "u1"),
    ("is_made", "u1"),
    ("is_kept", "u1"),
]
"""What is remembered of a connection, and handed over at its end.

`attributed` is the state to which its process took it first, NOBODY for none yet; `state` is that from which it was
closed. It was asked for here (`is_asked`), was ever established (`is_made`), is the target's (`is_kept`). The others
are of struct tcp_sock: bytes_acked, bytes_received, snd_una, write_seq, total_retrans, and the socket's flags.
"""
_KEY = np.dtype([("socket", "u8")])
_COUNTS = {
    "acked": "bytes_acked",
    "received": "bytes_received",
    "unacknowledged": "snd_una",
    "write": "write_seq",
    "retransmits": "total_retrans",
}
_CONNECTED = tuple(state for state in range(1, LISTEN + 2) if state not in (SYN_SENT, SYN_RECV, CLOSE, LISTEN))


def make_record(tasks: TaskFields, sockets: SocketFields) -> np.dtype[Any]:
    """Make the type of what is remembered of a connection with, of its task and of itself, what the answer shows."""
    return np.dtype([*FIELDS, *tasks.layout, *sockets.layout], align=True)


class LifetimePrograms:
    """Writes the programs on the changes of a socket's state, and on its end.

    `lost` counts connections that found no room, `unknown` those that were there before, of whomever, `unowned` those
    of which no process was seen, where the target is not the machine, `missed` those whose end passed no tracepoint.
    `seen` counts all that are taken, whosever they are.
    """

    def __init__(
        self, tasks: TargetTasks, task_fields: TaskFields, socket_fields: SocketFields, seen: SeenCounts
    ) -> None:
        self._seen = seen
        self._tasks = tasks
        self._task_fields = task_fields
        self._socket_fields = socket_fields
        self.is_of_all = isinstance(tasks.filter, AnyTask)
        self.record = make_record(task_fields, socket_fields)
        self.connections = Map(MapType.HASH, "connections", _KEY, self.record, MOST_CONNECTIONS)
        self.lost = LostCounter()
        self.unknown = LostCounter()
        self.unowned = LostCounter()
        self.missed = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        for held in (self.connections, self.lost, self.unknown, self.unowned, self.missed):
            held.close()

    def write_change(self, program: TaskAssembly, transport: Transport) -> None:
        """Write inet_sock_set_state(socket, old state, new state)."""
        key = self._begin(program)
        skip_other_protocols(program, R6, R7, "done")
        program.read_argument(R9, R6, 2)
        program.jump_if(R9, "==", SYN_SENT, "born")
        program.read_argument(R1, R6, 1)
        program.jump_if(R1, "==", LISTEN, "taken")
        program.label("known")
        self._find(program, key)
        self._attribute(program)
        program.read_argument(R9, R6, 2)
        program.read_argument(R1, R6, 1)
        # The change to it may have passed no tracepoint.
        for state in (R1, R9):
            with program.when(state, "==", ESTABLISHED):
                program.set(Record(R8, self.record), "is_made", 1)
        program.jump_if(R9, "!=", CLOSE, "done")
        self._write_end(program, key, transport)
        program.label("taken")
        program.jump_if(R9, "!=", SYN_RECV, "done")
        if isinstance(program, KernelAssembly):
            self._seen.emit_add(program, R7)
        program.label("born")
        self._write_birth(program, key)
        program.jump_if(R9, "==", SYN_SENT, "known")
        program.label("done")
        program.leave(0)

    def write_destroy(self, program: TaskAssembly, transport: Transport) -> None:
        """Write tcp_destroy_sock(socket), which comes after the change to CLOSE."""
        key = self._begin(program)
        program.look_up(self.connections, key)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        self._attribute_now(program, CLOSE)
        program.get(R1, Record(R8, self.record), "ns")
        with program.when(R1, "==", 0):
            self._miss(program)
        self._hand_over(program, transport)
        program.delete(self.connections, key)
        program.label("done")
        program.leave(0)

    def _begin(self, program: TaskAssembly) -> Record:
        """Set R6 to the context and R7 to the socket, and return the key that its connection is found by."""
        key = program.reserve(_KEY)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.set(key, "socket", R7)
        return key

    def _write_birth(self, program: TaskAssembly, key: Record) -> None:
        """Remember the connection of the socket in R7, which goes to the state in R9, in place of one that is over."""
        program.look_up(self.connections, key)
        with program.when(R0, "!=", 0):
            program.move(R8, R0)
            self._miss(program)
        entry = program.reserve(self.record)
        program.clear(entry)
        read_clock(program, R0)
        program.set(entry, "born_ns", R0)
        with program.when(R9, "==", SYN_SENT):
            program.set(entry, "is_asked", 1)
        program.update(self.connections, key, entry)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)
            program.jump("done")

    def _miss(self, program: TaskAssembly) -> None:
        """Count the connection in R8, if it was made and may be the target's: it is over, and nothing told of it."""
        entry = Record(R8, self.record)
        missed, end = program.make_label("missed"), program.make_label("end")
        program.get(R1, entry, "is_made")
        program.jump_if(R1, "==", 0, end)
        program.get(R1, entry, "is_kept")
        program.jump_if(R1, "!=", 0, missed)
        program.get(R1, entry, "attributed")
        program.jump_if(R1, "!=", NOBODY, end)
        program.label(missed)
        self.missed.emit_count(program)
        program.label(end)

    def _find(self, program: TaskAssembly, key: Record) -> None:
        """Set R8 to the entry of the connection; where there is none, it is done, and counts where it was one."""
        program.look_up(self.connections, key)
        program.move(R8, R0)
        with program.when(R0, "==", 0):
            program.jump_if(R9, "!=", CLOSE, "done")
            program.read_argument(R1, R6, 1)
            for state in _CONNECTED:
                program.jump_if(R1, "==", state, "unknown")
            program.jump("done")
            program.label("unknown")
            self.unknown.emit_count(program)
            program.jump("done")

    def _attribute(self, program: TaskAssembly) -> None:
        """Make the connection in R8 that of the task that changes its state to that in R9, if a process does.

        What another ends (ss -K) is broken off, and still its holder's.
        """
        end = program.make_label("attributed")
        if isinstance(program, KernelAssembly):
            with program.when(R9, "==", CLOSE):
                program.read_field(R1, R7, "sock", "sk_err")
                program.jump_if(R1, "==", errno.ECONNABORTED, end)
        self._attribute_now(program, R9)
        program.label(end)

    def _attribute_now(self, program: TaskAssembly, state: Register | int) -> None:
        entry, end = Record(R8, self.record), program.make_label("known")
        program.get(R1, entry, "attributed")
        program.jump_if(R1, "!=", NOBODY, end)
        skip_kernels_own_changes(program, R7, end, state=None if isinstance(state, int) else state)
        program.set(entry, "attributed", state)
        program.point_to_current(R9)
        self._tasks.filter.keep(program, R9, end)
        program.set(entry, "is_kept", 1)
        self._task_fields.write(program, entry, R9)
        program.label(end)

    def _write_end(self, program: TaskAssembly, key: Record, transport: Transport) -> None:
        """Write what the connection in R8 came to, and hand it over where it is known whose it is."""
        entry = Record(R8, self.record)
        program.get(R1, entry, "is_made")
        program.jump_if(R1, "==", 0, "forget")
        read_clock(program, R0)
        program.set(entry, "ns", R0)
        program.read_argument(R1, R6, 1)
        program.set(entry, "state", R1)
        if isinstance(program, KernelAssembly):
            self._write_counts(program, entry)
        self._socket_fields.write(program, entry, R6, R7)
        program.get(R1, entry, "attributed")
        # Its process has not let go of it yet.
        program.jump_if(R1, "==", NOBODY, "done")
        self._hand_over(program, transport)
        program.label("forget")
        program.delete(self.connections, key)
        program.jump("done")

    def _write_counts(self, program: KernelAssembly, entry: Record) -> None:
        """Set what the socket in R7 counted."""
        program.read_field(R1, R7, "sock", "__sk_common.skc_flags")
        program.set(entry, "flags", R1)
        for field, path in _COUNTS.items():
            program.read_field(R1, R7, "tcp_sock", path, is_copied=True)
            program.set(entry, field, R1)

    def _hand_over(self, program: TaskAssembly, transport: Transport) -> None:
        """Hand over the connection in R8, if it is the target's and ended."""
        entry = Record(R8, self.record)
        unowned, keep, end = (program.make_label(name) for name in ("unowned", "keep", "handed"))
        program.get(R1, entry, "ns")
        program.jump_if(R1, "==", 0, end)
        program.get(R1, entry, "attributed")
        program.jump_if(R1, "==", NOBODY, unowned)
        program.get(R1, entry, "is_kept")
        program.jump_if(R1, "!=", 0, keep)
        program.jump(end)
        program.label(unowned)
        if not self.is_of_all:
            self.unowned.emit_count(program)
            program.jump(end)
        program.label(keep)
        transport.write(program, entry, R6)
        program.label(end)
