"""Listening to the process connector: a row for each message of one kind about the processes of a target.

A thread listens from the attach on, so that the kernel never has to hold much, and so that a process which is named in
the answer is still there to be read: a program may have run and ended within a millisecond of its exec.
"""

from __future__ import annotations

import select
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from omn_kernel.counters import Misses
from omn_kernel.procfs.process import find_comm, find_process_key

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    Column,
    InTargetCost,
    Losses,
    MachineRefused,
    ResolvedRequest,
    RunContext,
)
from omn_proc.connector import Connector, Message, Unanswered, What, explain
from omn_proc.lineage import Lineage

_ROW_BYTES = 512
"""What one row held here takes, at most, where its texts are not many."""

_GATHER_S = 0.02
"""How long messages are let gather where nothing of their processes is to be read while it is there."""


@attrs.frozen
class Life:
    """What a message says of a process: which it is, which made it, and the columns of its kind."""

    task: int | None
    pid: int
    parent: int | None
    values: Mapping[str, Any]


class LifeCollector(CollectorBase, ABC):
    """A row for each message of one kind about a process of the target's family.

    `hearing` is held by whichever thread takes messages from the kernel.
    """

    value: str
    what: What
    read_names: tuple[str, ...] = ("comm", "proc")
    """What is read of a process where the answer can show it, while the process is there."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Begin with nothing heard."""
        super().prepare(resolved, context)
        self.misses = Misses()
        self._shown = {name: resolved.shows(name) for name in self.read_names}
        self._rows: list[tuple[int, dict[str, Any]]] = []
        self._comms: dict[int, bytes] = {}
        self._dropped = 0
        self._listener: Connector | None = None

    @abstractmethod
    def read_life(self, message: Message) -> Life | None:
        """Read a message of this kind, None where it is not counted."""

    def shows(self, name: str) -> bool:
        """Tell whether the answer can show something that is read of a process."""
        return self._shown[name]

    def attach(self, target: BoundTarget) -> None:
        """Listen. Raises MachineRefused where the kernel does not tell."""
        try:
            self._listener = Connector()
        except (OSError, Unanswered) as error:
            told = explain(error)
            raise MachineRefused(told.reason or "", told.remedy) from None
        self.lineage = Lineage(self.context.sysroot, [handle.pid for handle in target.processes])
        self.hearing = threading.Lock()
        self._over, self._tell_over = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, args=(self._listener,), daemon=True)
        self._thread.start()

    def sample(self, now_ns: int) -> Batch:
        """Return what was heard since the last sample, each row stamped by the kernel."""
        return self._take()

    def stop(self) -> Batch:
        """Return what was heard, and listen no longer."""
        if self._listener is None:
            return Batch.empty()
        self._tell_over.close()
        self._thread.join()
        self._over.close()
        batch = self._take()
        self._listener.close()
        return batch

    def in_target_cost(self) -> InTargetCost:
        """Return that it is unknown: the kernel makes each message while the process forks, executes or ends."""
        return InTargetCost(None)

    def losses(self) -> Losses:
        """Return what the kernel dropped, what came past the memory bound, and what nobody could tell the parent of."""
        losses = self.misses.to_losses()
        if self._listener is None:
            return losses
        lost = self._listener.gaps.dropped
        reasons = list(losses.reasons)
        if lost:
            reasons.append(
                f"the kernel dropped {lost} messages about processes, of any kind, that were not heard in time"
            )
        elif self._listener.overruns:
            lost = self._listener.overruns
            reasons.append("the kernel dropped messages about processes that were not heard in time, at least so many")
        if self._dropped:
            reasons.append(f"{self._dropped} events came when the bound of one request was held")
        return attrs.evolve(losses, dropped=lost + self._dropped, reasons=tuple(reasons))

    def find_comm(self, pid: int) -> bytes | None:
        """Find what a process calls itself: as was told, else as /proc says now; None where it is gone unheard."""
        if pid not in self._comms:
            comm = find_comm(self.context.sysroot, pid)
            if comm is None:
                return None
            self._comms[pid] = comm
        return self._comms[pid]

    def _listen(self, listener: Connector) -> None:
        poller = select.poll()
        poller.register(self._over, select.POLLIN | select.POLLHUP)
        over = select.poll()
        over.register(self._over, select.POLLIN | select.POLLHUP)
        poller.register(listener, select.POLLIN)
        while self._over.fileno() not in {descriptor for descriptor, _ in poller.poll()}:
            with self.hearing:
                self._hear(listener)
            if not any(self._shown.values()) and over.poll(_GATHER_S * 1000):
                return

    def _hear(self, listener: Connector) -> None:
        for message in listener.receive():
            if message.what == What.FORK:
                self._note_fork(message)
            elif self._shown["comm"]:
                self._note_name(message)
            if message.what == self.what:
                self._note(message)
            if message.what == What.EXIT and message.numbers[0] == message.numbers[1]:
                self._comms.pop(message.numbers[1], None)

    def _note_fork(self, message: Message) -> None:
        _, parent, task, child = message.numbers[:4]
        if task != child:
            return  # a thread: its process is known
        self.lineage.note_fork(parent, child)
        self._comms.pop(child, None)
        comm = self.find_comm(parent) if self._shown["comm"] else None
        if comm is not None:
            self._comms[child] = comm

    def _note_name(self, message: Message) -> None:
        """Take in what a process calls itself from now on: it executed a program, or took a name."""
        task, pid = message.numbers[:2]
        if message.what == What.EXEC:
            self._comms.pop(pid, None)
            self.find_comm(pid)
        elif message.what == What.COMM and task == pid:
            self._comms[pid] = message.comm

    def _note(self, message: Message) -> None:
        life = self.read_life(message)
        if life is None:
            return
        is_inside = self.lineage.find_membership(life.pid)
        if is_inside is None:
            self.misses.note("whose process it was could not be told, because what made it was not heard")
        if not is_inside:
            return
        if len(self._rows) >= self.context.memory_bytes // _ROW_BYTES:
            self._dropped += 1
            return
        row = {"task": life.task, "pid": life.pid, "ppid": life.parent, self.value: 1, **life.values}
        if self._shown["comm"]:
            row["comm"] = self.find_comm(life.pid)
        if self._shown["proc"]:
            row["proc"] = find_process_key(self.context.sysroot, life.pid)
        self._rows.append((message.ts_ns, row))

    def _take(self) -> Batch:
        """Hear what is there, and make a batch of every row since the last."""
        if self._listener is None:
            return Batch.empty()
        with self.hearing:
            self._hear(self._listener)
            rows, self._rows = self._rows, []
        if not rows:
            return Batch.empty()
        stamps = np.array([ts_ns for ts_ns, _ in rows], np.int64)
        columns = {name: Column.of([row[name] for _, row in rows], self.context.names) for name in rows[0][1]}
        keys: dict[str, Column] = {name: columns.pop(name) for name in ("task", "proc") if name in columns}
        return Batch(stamps, np.zeros(len(rows), np.int64), keys, columns)
