"""proc.exec, proc.exit and proc.fork through the process connector: each program, each end, each task that was made."""

from __future__ import annotations

import signal

from omn_kernel.polled import read_file

from omn_proc.connector import Message, What
from omn_proc.listening import Life, LifeCollector

_LONGEST_COMMAND = 4096


class Execs(LifeCollector):
    """A row for each program that a process executed, under the name and with the arguments that it has from there."""

    value = "execs"
    what = What.EXEC
    read_names = ("comm", "proc", "argv")

    def read_life(self, message: Message) -> Life:
        """Read which process it was; its arguments only where the answer can show them, None where it is gone."""
        _, pid = message.numbers[:2]
        values = {"argv": self._find_arguments(pid)} if self.shows("argv") else {}
        return Life(pid, pid, self.lineage.find_parent(pid), values)

    def _find_arguments(self, pid: int) -> bytes | None:
        """Find a process's arguments, separated by spaces and cut at 4096 bytes."""
        try:
            content = read_file(self.context.sysroot, f"/proc/{pid}/cmdline")
        except OSError:
            return None
        return content.rstrip(b"\0").replace(b"\0", b" ")[:_LONGEST_COMMAND] or None


class Exits(LifeCollector):
    """A row for each process that ended, at the end of its first thread, with its code or the signal that ended it."""

    value = "exits"
    what = What.EXIT

    def read_life(self, message: Message) -> Life | None:
        """Read how it ended: a thread's end is none of its process."""
        task, pid, status, _, _, parent = message.numbers
        if task != pid:
            return None
        number = status & 0x7F
        values = {"code": None if number else status >> 8 & 0xFF, "signal": _spell_signal(number) if number else None}
        # Before Linux 4.18 the message has no parent.
        return Life(pid, pid, parent or self.lineage.find_parent(pid), values)


class Forks(LifeCollector):
    """A row for each process and thread that was made, under the process that made it."""

    value = "forks"
    what = What.FORK

    def read_life(self, message: Message) -> Life:
        """Read who made it: of a thread the message has its process, and not which of its threads it was."""
        task, parent, child, process = message.numbers[:4]
        is_thread = child != process
        maker = process if is_thread else parent
        values = {"child": child, "kind": "thread" if is_thread else "process"}
        return Life(None if is_thread else task, maker, self.lineage.find_parent(maker), values)


def _spell_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
