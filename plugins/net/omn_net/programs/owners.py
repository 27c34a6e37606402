"""Whose each TCP socket is: the task's that is first seen to do something with it.

That is the first change of its state that a process makes, or the first time that it takes something out of it
(tcp_rcv_space_adjust): a connection that was taken, or that was there before, changes its state at its close alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import NO_EXIST, Map
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, R6, R7, R8, R9, Register
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.tasks import TaskFields

from omn_net.programs.states import CLOSE, skip_kernels_own_changes, skip_other_protocols

MOST_SOCKETS = 1 << 15
"""Of how many sockets it is remembered whose they are."""
_KEY = np.dtype([("socket", "u8")])


class SocketOwners:
    """Writes the programs that remember whose sockets are. `lost` counts those that found no room.

    `subject` are the fields of a record among which those of its task are, and `is_owned`, 1 for one that is known.
    """

    def __init__(self, tasks: TargetTasks, task_fields: TaskFields, subject: np.dtype[Any]) -> None:
        self._tasks = tasks
        self._task_fields = task_fields
        self._owner = np.dtype([("subject", subject), ("is_kept", "u8")], align=True)
        self._owners = Map(MapType.HASH, "owners", _KEY, self._owner, MOST_SOCKETS)
        self._subject = subject
        self.lost = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self._owners.close()
        self.lost.close()

    def write_change(self, program: TaskAssembly) -> None:
        """Write inet_sock_set_state(socket, old state, new state)."""
        key = self._begin(program)
        skip_other_protocols(program, R6, R7, "done")
        program.read_argument(R8, R6, 2)
        with program.when(R8, "==", CLOSE):
            program.delete(self._owners, key)
            program.jump("done")
        self._write_owner(program, key, state=R8)

    def write_taking(self, program: TaskAssembly) -> None:
        """Write tcp_rcv_space_adjust(socket), which is where a process takes what came."""
        key = self._begin(program)
        self._write_owner(program, key)

    def _begin(self, program: TaskAssembly) -> Record:
        key = program.reserve(_KEY)
        program.move(R6, R1)
        program.read_argument(R7, R6, 0)
        program.set(key, "socket", R7)
        return key

    def _write_owner(self, program: TaskAssembly, key: Record, *, state: Register | None = None) -> None:
        """Remember the socket in R7 as the task's that runs, where nobody's yet; the end of the program.

        `state` is the one that it goes to, where that is what the program is told.
        """
        program.look_up(self._owners, key)
        program.jump_if(R0, "!=", 0, "done")
        skip_kernels_own_changes(program, R7, "done", state=state)
        owner = program.reserve(self._owner)
        program.clear(owner)
        program.point_to_current(R9)
        self._tasks.filter.keep(program, R9, "another")
        program.set(owner, "is_kept", 1)
        subject = Record(owner.base, self._subject, owner.locate("subject")[0])
        program.set(subject, "is_owned", 1)
        self._task_fields.write(program, subject, R9)
        program.label("another")
        program.update(self._owners, key, owner, NO_EXIST)
        with program.when(R0, "!=", 0):
            program.look_up(self._owners, key)
            program.jump_if(R0, "!=", 0, "done")
            self.lost.emit_count(program)
        program.label("done")
        program.leave(0)

    def copy_owner(
        self, program: TaskAssembly, sock: Register, subject: Record, *, unknown: str, otherwise: str
    ) -> None:
        """Emit what sets a record's subject to a socket's owner. R0 to R5 hold nothing of the program's after it.

        It goes to `unknown` where nobody was seen, to `otherwise` where it is another's than the target's.
        """
        key = program.reserve(_KEY)
        program.set(key, "socket", sock)
        program.look_up(self._owners, key)
        program.jump_if(R0, "==", 0, unknown)
        program.get(R1, Record(R0, self._owner), "is_kept")
        program.jump_if(R1, "==", 0, otherwise)
        program.move(R3, R0)
        program.move(R2, self._subject.itemsize)
        program.point_at(R1, subject)
        program.call("probe_read_kernel")
