"""procps: ps, free, vmstat, top, uptime."""

from __future__ import annotations

import re

from reference.parsing import Figures, UnreadableError, parse_number, parse_tables

_STATISTICS = {
    "K total memory": ("total_bytes", 1024),
    "K used memory": ("used_bytes", 1024),
    "K active memory": ("active_bytes", 1024),
    "K inactive memory": ("inactive_bytes", 1024),
    "K free memory": ("free_bytes", 1024),
    "K buffer memory": ("buffers_bytes", 1024),
    "K total swap": ("swap_total_bytes", 1024),
    "K paged in": ("paged_in_bytes", 1024),
    "K paged out": ("paged_out_bytes", 1024),
    "pages swapped in": ("swapped_in_pages", 1),
    "pages swapped out": ("swapped_out_pages", 1),
    "interrupts": ("interrupts", 1),
    "CPU context switches": ("switches", 1),
    "forks": ("forks", 1),
}


def parse_vmstat_statistics(text: str) -> Figures:
    """Read `vmstat -s`, or `vmstat -f`: a number and what it counts, one a line."""
    found = {}
    for line in text.splitlines():
        number, _, meaning = line.strip().partition(" ")
        if meaning in _STATISTICS:
            name, factor = _STATISTICS[meaning]
            found[name] = parse_number(number) * factor
    if not found:
        raise UnreadableError("no line is a statistic of vmstat")
    return found


def parse_free(text: str) -> Figures:
    """Read `free -b -w`: bytes, in a row of memory and one of swap."""
    rows = {words[0]: words[1:] for words in map(str.split, text.splitlines()[1:]) if words}
    if "Mem:" not in rows or "Swap:" not in rows:
        raise UnreadableError("no rows Mem: and Swap:")
    names = text.splitlines()[0].split()
    memory = {f"{name}_bytes": parse_number(value) for name, value in zip(names, rows["Mem:"], strict=True)}
    swap = dict(
        zip(("swap_total_bytes", "swap_used_bytes", "swap_free_bytes"), map(parse_number, rows["Swap:"]), strict=True)
    )
    return {**memory, **swap}


def parse_ps(text: str) -> Figures:
    """Read `ps -o rss=RSS,nlwp=NLWP,... -p PID`: one row under its headings, RSS and VSZ in KiB."""
    rows = parse_tables(text, "PID")
    if len(rows) != 1:
        raise UnreadableError(f"{len(rows)} processes, and one is expected")
    units = {"RSS": ("rss_bytes", 1024), "NLWP": ("threads", 1), "MINFL": ("minor", 1), "MAJFL": ("major", 1)}
    return {units[name][0]: parse_number(value) * units[name][1] for name, value in rows[0].items() if name in units}


def parse_uptime(text: str) -> Figures:
    """Read `uptime`: the three averages of its load."""
    found = re.search(r"load average: ([\d.]+), ([\d.]+), ([\d.]+)", text)
    if found is None:
        raise UnreadableError("no load average")
    return dict(zip(("load1", "load5", "load15"), map(float, found.groups()), strict=True))
