"""TCP connections from the call that asks for one to the answer, told by the changes of a socket's state.

A socket goes to SYN_SENT within connect(2), where its lock is held by the task that asked, and leaves that state where
the answer comes: to ESTABLISHED, or to CLOSE with the error that connect will return. Both ends of a connection that
ask at once pass through SYN_RECV.

A call that fails by itself, since there is no way there or no port left, never goes to SYN_SENT, or leaves it for CLOSE
before it returns. What it returns is told where the function is followed that the call is of (tcp_v4_connect, which
tcp_v6_connect calls for an IPv4 address).
"""

from __future__ import annotations

import errno
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

from omn_net.programs.states import CLOSE, SYN_RECV, SYN_SENT, skip_other_protocols
from omn_net.socket_fields import SocketFields

MOST_CONNECTS = 1 << 14
"""How many connections are remembered at a time while they are asked for."""

UNANSWERED = 0
UNTOLD = -1
FIELDS = [("asked_ns", "u8"), ("connect_ns", "i8"), ("error", "i4"), ("state", "u2"), ("is_called", "u2")]
"""`error` is the errno that the socket keeps or the call returns, UNTOLD of a call that failed by itself where nothing
follows it. `state` is the one that the socket went to, UNANSWERED for none yet. `is_called` says that the function has
not returned."""
_KEY = np.dtype([("socket", "u8")])
_UNCONNECTED = 1
"""SS_UNCONNECTED of <linux/net.h>, whose enumeration has no name."""
_INTEGER_BITS = 32
_RESULT = 3
"""Where the result of a function of three arguments stands behind them."""


class ConnectProgram:
    """Writes the program on the changes of a socket's state and, where calls are followed, those on their function.

    `lost` counts connections that found no room, `unknown` those that were asked for before, by anybody, `missed` those
    of the target whose answer passed no tracepoint: the socket goes on, or is another's.
    """

    def __init__(
        self,
        record: np.dtype[Any],
        tasks: TargetTasks,
        task_fields: TaskFields,
        socket_fields: SocketFields,
        *,
        follows_calls: bool,
    ) -> None:
        self.record = record
        self._follows_calls = follows_calls
        self._tasks = tasks
        self._task_fields = task_fields
        self._socket_fields = socket_fields
        self.asked = Map(MapType.HASH, "connects", _KEY, self.record, MOST_CONNECTS)
        self.lost = LostCounter()
        self.unknown = LostCounter()
        self.missed = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        for held in (self.asked, self.lost, self.unknown, self.missed):
            held.close()

    def write_change(self, program: KernelAssembly, transport: Transport) -> None:
        """Write inet_sock_set_state(socket, old state, new state)."""
        key = self._begin(program)
        skip_other_protocols(program, R6, R7, "done")
        program.read_argument(R9, R6, 2)
        program.jump_if(R9, "==", SYN_SENT, "asked")
        program.read_argument(R8, R6, 1)
        program.jump_if(R8, "==", SYN_SENT, "answered")
        program.jump_if(R8, "==", SYN_RECV, "answered")
        self._write_missed(program, key)
        program.jump("done")
        program.label("asked")
        if not self._follows_calls:
            self._write_missed(program, key)
            self._write_asked(program, key)
        program.jump("done")
        program.label("answered")
        self._write_answered(program, key, transport)
        program.label("done")
        program.leave(0)

    def write_call(self, program: KernelAssembly) -> None:
        """Write the entry of tcp_v4_connect(socket, address, its length)."""
        key = self._begin(program)
        program.look_up(self.asked, key)
        with program.when(R0, "!=", 0):
            program.get(R1, Record(R0, self.record), "is_called")
            # tcp_v6_connect calls it, which is followed.
            program.jump_if(R1, "!=", 0, "done")
            self._write_missed(program, key)
        self._write_asked(program, key)
        program.label("done")
        program.leave(0)

    def write_return(self, program: KernelAssembly, transport: Transport) -> None:
        """Write its return: one that went well leaves the answer to the changes of state."""
        key = self._begin(program)
        program.look_up(self.asked, key)
        program.jump_if(R0, "==", 0, "done")
        program.move(R8, R0)
        entry = Record(R8, self.record)
        program.set(entry, "is_called", 0)
        program.read_argument(R9, R6, _RESULT)
        program.compute(R9, "<<=", _INTEGER_BITS)
        program.compute(R9, "s>>=", _INTEGER_BITS)
        program.jump_if(R9, "==", 0, "done")
        program.move(R1, 0)
        program.compute(R1, "-=", R9)
        program.set(entry, "error", R1)
        program.set(entry, "state", CLOSE)
        self._hand_over(program, key, transport)
        program.label("done")
        program.leave(0)

    def write_destroy(self, program: KernelAssembly) -> None:
        """Write tcp_destroy_sock(socket): what has no answer then had one."""
        self._write_missed(program, self._begin(program))
        program.leave(0)

    def _write_missed(self, program: KernelAssembly, key: Record) -> None:
        """Forget the connection of a socket, and count it, if it has no answer yet."""
        program.delete(self.asked, key)
        with program.when(R0, "==", 0):
            self.missed.emit_count(program)

    def _begin(self, program: KernelAssembly) -> Record:
        """Set R6 to the context and R7 to the socket, and return the key that its connection is found by."""
        key = program.reserve(_KEY)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.set(key, "socket", R7)
        return key

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
        if self._follows_calls:
            program.set(entry, "is_called", 1)
            program.read_argument(R8, R6, 1)
            self._socket_fields.write_wanted(program, entry, R8)
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
        program.read_field(R1, R7, "sock", "sk_err")
        program.set(entry, "error", R1)
        with program.when(R9, "==", CLOSE):
            self._tell_failed_call(program, entry)
        program.set(entry, "state", R9)
        # It has the port at this end only now.
        self._socket_fields.write(program, entry, R6, R7)
        self._hand_over(program, key, transport)

    def _tell_failed_call(self, program: KernelAssembly, entry: Record) -> None:
        """Leave a call that fails by itself to its return, or else say what is known: it failed, maybe for a port."""
        if self._follows_calls:
            program.get(R1, entry, "is_called")
            program.jump_if(R1, "!=", 0, "done")
            return
        end = program.make_label("told")
        program.get(R1, entry, "error")
        program.jump_if(R1, "!=", 0, end)
        # The call that asks sets it to SS_CONNECTING once all went well.
        program.read_field(R1, R7, "sock", "sk_socket.state")
        program.jump_if(R1, "!=", _UNCONNECTED, end)
        program.set(entry, "error", UNTOLD)
        program.read_field(R1, R7, "inet_sock", "inet_sport", is_copied=True)
        with program.when(R1, "==", 0):
            program.set(entry, "error", errno.EADDRNOTAVAIL)
        program.label(end)

    def _hand_over(self, program: KernelAssembly, key: Record, transport: Transport) -> None:
        """Hand over the connection in R8, which has its answer now."""
        entry = Record(R8, self.record)
        read_clock(program, R0)
        program.set(entry, "ns", R0)
        program.get(R1, entry, "asked_ns")
        program.compute(R0, "-=", R1)
        program.set(entry, "connect_ns", R0)
        transport.write(program, entry, R6)
        program.delete(self.asked, key)
