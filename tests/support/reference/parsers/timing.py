"""What times a program: GNU time, bash's own word, perf stat and perf report."""

from __future__ import annotations

import re

from reference.parsing import Figures, ToolLossError, UnreadableError, parse_number

_VERBOSE = {
    "User time (seconds)": ("user_ns", 10**9),
    "System time (seconds)": ("system_ns", 10**9),
    "Maximum resident set size (kbytes)": ("peak_bytes", 1024),
    "Major (requiring I/O) page faults": ("major", 1),
    "Minor (reclaiming a frame) page faults": ("minor", 1),
    "Voluntary context switches": ("voluntary", 1),
    "Involuntary context switches": ("involuntary", 1),
    # In blocks of 512 bytes: the kernel's accounts of bytes, shifted (include/linux/task_io_accounting_ops.h).
    "File system inputs": ("read_bytes", 512),
    "File system outputs": ("written_bytes", 512),
}
_EVENT_UNITS = {"msec": 10**6, "": 1}
_MODIFIERS = re.compile(":[ukhGHpPSDIWeb]+$")
"""What perf adds to an event's name of where it was counted; a tracepoint's own name has a colon in it."""


def parse_time_verbose(text: str) -> Figures:
    """Read GNU `time -v`: of the program and every child it waited for."""
    found = {}
    for line in text.splitlines():
        meaning, _, value = line.strip().rpartition(": ")
        if meaning in _VERBOSE:
            name, factor = _VERBOSE[meaning]
            found[name] = parse_number(value) * factor
    if not found:
        raise UnreadableError("no line of time -v")
    return {**found, "oncpu_ns": found["user_ns"] + found["system_ns"]}


def parse_time_keyword(text: str) -> Figures:
    """Read bash's `time` under TIMEFORMAT='%R %U %S': seconds by the clock, in the program, in the kernel."""
    found = re.search(r"^([\d.]+) ([\d.]+) ([\d.]+)$", text, re.M)
    if found is None:
        raise UnreadableError("no times of bash")
    wall, user, system = (float(part) * 10**9 for part in found.groups())
    return {"wall_ns": wall, "user_ns": user, "system_ns": system, "oncpu_ns": user + system}


def parse_perf_stat(text: str) -> Figures:
    """Read `perf stat -x,`: each event by its name. One that was not counted is no figure.

    Raises ToolLossError where the machine has none of the events, or perf had to share a counter among them.
    """
    found = {}
    refused = []
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) < 5 or line.startswith("#"):
            continue
        value, unit, event, share = fields[0], fields[1], fields[2], fields[4]
        if value.startswith("<"):
            refused.append(f"{event} {value}")
        elif parse_number(share) < 100:
            raise ToolLossError(f"perf counted {event} for {share} % of the time")
        else:
            found[_MODIFIERS.sub("", event)] = parse_number(value) * _EVENT_UNITS[unit]
    if not found:
        raise ToolLossError(f"perf: {', '.join(refused)}") if refused else UnreadableError("no event")
    return found


def parse_perf_report(text: str) -> Figures:
    """Read `perf report --stdio --sort dso`: the share of each file of code, by its name as far as `.so`.

    Raises ToolLossError where it says that it lost samples.
    """
    lost = re.search(r"(\d+) lost|lost (\d+) (?:chunks|samples)", text, re.IGNORECASE)
    if lost is not None and max(int(part or 0) for part in lost.groups()):
        raise ToolLossError(f"perf: {lost.group()}")
    found: dict[str, float] = {}
    for share, file in re.findall(r"^ *([\d.]+)% +(\S+) *$", text, re.M):
        name = file.partition(".so")[0]
        found[name] = found.get(name, 0) + parse_number(share) / 100
    if not found:
        raise UnreadableError("no share of perf report")
    return found
