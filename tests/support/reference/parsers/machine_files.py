"""Files of the kernel read by hand: what `cat` and `ls` print."""

from __future__ import annotations

import re

from reference.parsing import Figures, UnreadableError, parse_number

_PRESSURE = re.compile(r"^(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)$", re.M)


def parse_number_file(text: str) -> Figures:
    """Read a file that holds one number, such as memory.usage_in_bytes or pids.current."""
    return {"value": parse_number(text.strip())}


def parse_flat_file(text: str) -> Figures:
    """Read a file of lines `name number`, such as cpu.stat."""
    found = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        found[name] = parse_number(number)
    if not found:
        raise UnreadableError("no line")
    return found


def parse_pressure(text: str) -> Figures:
    """Read a file of pressure: the totals, in nanoseconds, and the averages as shares."""
    found: dict[str, float] = {}
    for kind, ten, sixty, five_minutes, total_us in _PRESSURE.findall(text):
        averages = {"avg10": float(ten) / 100, "avg60": float(sixty) / 100, "avg300": float(five_minutes) / 100}
        found |= {f"{kind}_{name}": value for name, value in averages.items()}
        found[f"{kind}_ns"] = int(total_us) * 1000
    if not found:
        raise UnreadableError("no line of pressure")
    return found


def parse_listing(text: str) -> Figures:
    """Read `ls -1` of a folder of numbers, such as /proc/PID/fd: how many there are."""
    words = text.split()
    if not words or not all(map(str.isdigit, words)):
        raise UnreadableError("no listing of numbers")
    return {"count": len(words)}
