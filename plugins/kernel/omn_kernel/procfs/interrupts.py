"""What /proc/interrupts and /proc/softirqs hold: a count for each line and cpu. Pure functions; see proc(5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

WRAP = 1 << 32
"""Where these counters start over: the kernel keeps an unsigned int for each cpu."""

_ERRORS = frozenset({"ERR", "Err", "MIS"})
"""Lines of /proc/interrupts that count faults of the hardware and no interrupts, for all cpus at once."""


@attrs.frozen
class InterruptTable:
    """The cpus that have a column, and each line by its label, what follows its colon left as the kernel wrote it.

    /proc/interrupts has columns for the cpus that are online, /proc/softirqs for those that may ever be.
    """

    cpus: tuple[int, ...]
    lines: Mapping[str, bytes]


def parse_interrupts(content: bytes) -> InterruptTable:
    """Parse /proc/interrupts or /proc/softirqs into its lines."""
    head, _, rest = content.partition(b"\n")
    lines: dict[str, bytes] = {}
    for line in rest.split(b"\n"):
        label, colon, counts = line.partition(b":")
        if colon:
            lines[label.strip().decode("utf-8", "backslashreplace")] = counts
    for error in _ERRORS & lines.keys():
        del lines[error]
    return InterruptTable(tuple(int(name[3:]) for name in head.split()), lines)


def parse_counts(line: bytes, cpus: int) -> tuple[int, ...]:
    """Parse a line's count on each cpu."""
    return tuple(map(int, line.split(None, cpus)[:cpus]))


def compute_total(table: InterruptTable, labels: Iterable[str], cpus: tuple[int, ...]) -> int:
    """Compute what some lines count on some cpus, or (empty) on all."""
    places = [place for place, cpu in enumerate(table.cpus) if not cpus or cpu in cpus]
    return sum(parse_counts(table.lines[label], len(table.cpus))[place] for label in labels for place in places)


def parse_description(line: bytes, cpus: int) -> str:
    """Parse what the kernel writes behind the counts: controller, trigger and devices of a line, or its meaning."""
    fields = line.split(None, cpus)
    text = fields[cpus] if len(fields) > cpus else b""
    return " ".join(text.decode("utf-8", "backslashreplace").split())
