"""proc.exec, proc.exit and proc.fork through the process connector: each program, each end, each task that was made."""

from __future__ import annotations

import re

from omn_kernel.polled import read_file

from omn_proc.arguments import spell_arguments
from omn_proc.connector import Message, What
from omn_proc.listening import Life, LifeCollector
from omn_proc.signal_names import spell_signal

_TRACE_PARENT = re.compile(rb"\0TRACEPARENT=[0-9a-f]{2}-[0-9a-f]{32}-([0-9a-f]{16})-[0-9a-f]{2}(?:\0|-|\Z)")


class Execs(LifeCollector):
    """A row for each program that a process executed, under the name and with the arguments that it has from there."""

    value = "execs"
    what = What.EXEC
    read_names = ("comm", "proc", "argv", "argv_bytes", "parent_span")

    def read_life(self, message: Message) -> Life:
        """Read which process it was; its arguments only where the answer can show them, None where it is gone."""
        _, pid = message.numbers[:2]
        is_asked = self.shows("argv") or self.shows("argv_bytes")
        values = self._read_arguments(pid) if is_asked else {}
        if self.shows("parent_span"):
            values["parent_span"] = self._find_span(pid)
        return Life(pid, pid, self.lineage.find_parent(pid), values)

    def _read_arguments(self, pid: int) -> dict[str, bytes | int | None]:
        try:
            content = read_file(self.context.sysroot, f"/proc/{pid}/cmdline")
        except OSError:
            content = b""
        return {"argv": spell_arguments(content), "argv_bytes": len(content) or None}

    def _find_span(self, pid: int) -> bytes | None:
        """Find the span that a process was executed in, None where its environment names none or may not be read."""
        try:
            environment = read_file(self.context.sysroot, f"/proc/{pid}/environ")
        except OSError:
            return None
        return parse_span(environment)


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
        values = {"code": None if number else status >> 8 & 0xFF, "signal": spell_signal(number) if number else None}
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


def parse_span(environment: bytes) -> bytes | None:
    """Return the span of the TRACEPARENT in an environment as /proc has it, None where there is no valid one.

    It is W3C's trace context: `<version>-<trace>-<span>-<flags>`, in lower-case hexadecimal.
    """
    found = _TRACE_PARENT.search(b"\0" + environment)
    return found[1] if found is not None and found[1].strip(b"0") else None
