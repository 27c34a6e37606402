"""TCP connections from the call that asks for one to the answer, told by the changes of a socket's state.

A socket goes to SYN_SENT within connect(2), where its lock is held by the task that asked, and leaves that state where
the answer comes: to ESTABLISHED, or to CLOSE with the error that connect will return. Both ends of a connection that
ask at once pass through SYN_RECV.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.transport import Transport

from omn_net.programs.states import SYN_RECV, SYN_SENT, skip_other_protocols
from omn_net.socket_fields import SocketFields

MOST_CONNECTS = 1 << 14
"""How many connections are remembered at a time while they are asked for."""

UNANSWERED = 0
FIELDS = [("asked_ns", "u8"), ("connect_ns", "i8"), ("error", "i4"), ("state", "u4")]
"""`error` is the errno that the socket keeps, `state` the one that it went to, UNANSWERED for none yet."""
_KEY = np.dtype([("socket", "u8")])


class ConnectProgram:
    """Writes the program on the changes of a socket's state.

    `lost` counts connections that found no room, `unknown` those that were asked for before, by anybody.
    """

    def __init__(
        self, record: np.dtype[Any], tasks: TargetTasks, task_fields: TaskFields, socket_fields: SocketFields
    ) -> None:
        self.record = record
        self._tasks = tasks
        self._task_fields = task_fields
        self._socket_fields = socket_fields
        self.asked = Map(MapType.HASH, "connects", _KEY, self.record, MOST_CONNECTS)
        self.lost = LostCounter()
        self.unknown = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self.asked.close()
        self.lost.close()
        self.unknown.close()

    def write_change(self, program: KernelAssembly, transport: Transport) -> None:
        """Write inet_sock_set_state(socket, old state, new state)."""
        key = program.reserve(_KEY)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.set(key, "socket", R7)
        skip_other_protocols(program, R6, R7, "done")
        program.read_argument(R9, R6, 2)
        program.jump_if(R9, "==", SYN_SENT, "asked")
        program.read_argument(R8, R6, 1)
        program.jump_if(R8, "==", SYN_SENT, "answered")
        program.jump_if(R8, "==", SYN_RECV, "answered")
        program.jump("done")
        program.label("asked")
        self._write_asked(program, key)
        program.jump("done")
        program.label("answered")
        self._write_answered(program, key, transport)
        program.label("done")
        program.leave(0)

    def _write_asked(self, program: KernelAssembly, key: Record) -> None:
        """Remember the connection of the socket in R7, whose task runs."""
        program.point_to_current(R9)
        self._tasks.filter.keep(program, R9, "done")
        entry = program.reserve(self.record)
        program.clear(entry)
        read_clock(program, R0)
        program.set(entry, "asked_ns", R0)
        self._task_fields.write(program, entry, R9)
        self._socket_fields.write(program, entry, R6, R7)
        program.update(self.asked, key, entry)
        with program.when(R0, "!=", 0):
            self.lost.emit_count(program)

    def _write_answered(self, program: KernelAssembly, key: Record, transport: Transport) -> None:
        """Hand over what became of the socket in R7, which was in the state in R8 and goes to that in R9."""
        program.jump_if(R9, "==", SYN_RECV, "done")
        program.look_up(self.asked, key)
        with program.when(R0, "==", 0):
            program.jump_if(R8, "!=", SYN_SENT, "done")
            self.unknown.emit_count(program)
            program.jump("done")
        program.move(R8, R0)
        entry = Record(R8, self.record)
        program.set(entry, "state", R9)
        read_clock(program, R0)
        program.set(entry, "ns", R0)
        program.get(R1, entry, "asked_ns")
        program.compute(R0, "-=", R1)
        program.set(entry, "connect_ns", R0)
        program.read_field(R1, R7, "sock", "sk_err")
        program.set(entry, "error", R1)
        # It has the port at this end only now.
        self._socket_fields.write(program, entry, R6, R7)
        transport.write(program, entry, R6)
        program.delete(self.asked, key)
