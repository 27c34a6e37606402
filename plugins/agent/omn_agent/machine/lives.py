"""The lives of processes, put together from what was told of forks, of programs executed, and of ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from omn_agent.machine.model import Figure, Life

_USED = {"cpu_ns": "ns", "read_bytes": "bytes", "write_bytes": "bytes"}
"""What `proc.exit` says that a process used in its life, where programs in the kernel see its end."""


@attrs.define
class _Lives:
    """Lives under construction. `running` has the process that each number stands for now."""

    found: list[Life] = attrs.field(factory=list)
    running: dict[int, Life] = attrs.field(factory=dict)

    def get(self, pid: int, parent_pid: int | None) -> Life:
        """Return the process of a number, added where nobody told of its start."""
        if pid not in self.running:
            self._add(Life(pid, parent_pid))
        return self.running[pid]

    def begin(self, ts_ns: int, attributes: Mapping[str, Any]) -> None:
        """Take in a fork; a thread's is none of a process."""
        child = attributes.get("child")
        if attributes.get("kind") == "process" and child is not None:
            self._add(Life(child, attributes.get("pid"), ts_ns))

    def execute(self, attributes: Mapping[str, Any]) -> None:
        """Take in what a process executed: its last name is its own, its first TRACEPARENT is where it came from."""
        life = self.get(attributes["pid"], attributes.get("ppid"))
        life.name = attributes.get("comm", life.name)
        life.span_id = life.span_id or attributes.get("parent_span")

    def end(self, ts_ns: int, attributes: Mapping[str, Any]) -> None:
        """Take in an end. One that executed nothing has the name of what made it."""
        life = self.get(attributes["pid"], attributes.get("ppid"))
        life.end_ns = ts_ns
        life.name = life.name or attributes.get("comm")
        life.code, life.signal = attributes.get("code"), attributes.get("signal")
        life.figures += [
            Figure(f"proc.exit {name}", unit, attributes[name]) for name, unit in _USED.items() if name in attributes
        ]
        del self.running[life.pid]

    def _add(self, life: Life) -> None:
        self.found.append(life)
        self.running[life.pid] = life


def make_lives(rows: Iterable[Mapping[str, Any]], root: int | None) -> list[Life]:
    """Return the processes that rows of `proc.fork`, `proc.exec` and `proc.exit` tell of, in the order of their starts.

    `root` is the process whose descendants were followed: it is there before the first row.
    """
    lives = _Lives()
    if root is not None:
        lives.get(root, None)
    for row in sorted(rows, key=lambda row: row["ts_ns"]):
        attributes = row["attrs"]
        if row["source"] == "proc.fork":
            lives.begin(row["ts_ns"], attributes)
        elif row["source"] == "proc.exec":
            lives.execute(attributes)
        else:
            lives.end(row["ts_ns"], attributes)
    return lives.found
