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


def parse_status(text: str) -> Figures:
    """Read /proc/PID/status: its numbers by their names, sizes in kB as bytes."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit() and (len(words) == 1 or words[1:] == ["kB"]):
            found[name] = int(words[0]) * (1024 if len(words) == 2 else 1)
    if not found:
        raise UnreadableError("no number of a status")
    return found


def parse_schedstat(text: str) -> Figures:
    """Read /proc/PID/schedstat: time on a cpu, time spent waiting for one, turns."""
    words = text.split()
    if len(words) != 3:
        raise UnreadableError("no three numbers of schedstat")
    return dict(zip(("oncpu_ns", "wait_ns", "slices"), map(parse_number, words), strict=True))


def parse_stat_line(text: str) -> Figures:
    """Read one line of /proc/stat whose first number is the total, such as `softirq` or `intr`."""
    words = text.split()
    if len(words) < 2:
        raise UnreadableError("no line of /proc/stat")
    return {"total": parse_number(words[1])}


def parse_net_dev(text: str) -> Figures:
    """Read /proc/net/dev: each interface's counters, `eth0.rx_bytes`."""
    found: dict[str, float] = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        numbers = list(map(parse_number, rest.split()))
        places = {"rx_bytes": 0, "rx_packets": 1, "tx_bytes": 8, "tx_packets": 9}
        found |= {f"{name.strip()}.{counter}": numbers[place] for counter, place in places.items()}
    if not found:
        raise UnreadableError("no interface")
    return found


def parse_idle_times(text: str) -> Figures:
    """Read cpuidle's time files of one cpu, in microseconds: `idle_ns`, all states together."""
    words = text.split()
    if not words:
        raise UnreadableError("no idle state")
    return {"idle_ns": sum(map(parse_number, words)) * 1000}
