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
    # In ticks of USER_HZ, which is 100 on every architecture that Linux keeps.
    "stolen cpu ticks": ("stolen_ns", 10**7),
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


def parse_top(text: str) -> Figures:
    """Read `top -b -n 2`: its last table, the shares of one cpu of each process (`12.util`) and of the machine."""
    tables = text.split("\ntop - ")
    found: dict[str, float] = {}
    for row in parse_tables(tables[-1], "PID", "%CPU", "RES"):
        found[f"{row['PID']}.util"] = parse_number(row["%CPU"]) / 100
    tasks = re.search(r"^(?:Tasks|Threads): +(\d+) total", tables[-1], re.M)
    if tasks is not None:
        found["tasks"] = int(tasks[1])
    return found


def parse_vmstat(text: str) -> Figures:
    """Read `vmstat SECONDS 2`: its last row, of the seconds before it; shares are whole percentages."""
    rows = parse_tables(text, "swpd", "us", "sy", "id")
    if len(rows) < 2:
        raise UnreadableError("no row of an interval")
    last = {name: parse_number(value) for name, value in rows[-1].items()}
    return {
        "util": (last["us"] + last["sy"]) / 100,
        "idle": last["id"] / 100,
        "interrupts_per_second": last["in"],
        "switches_per_second": last["cs"],
    }


_DISK = ("reads", "read_merges", "read_sectors", "read_ms", "writes", "write_merges", "write_sectors", "write_ms")


def parse_vmstat_disks(text: str) -> Figures:
    """Read `vmstat -d`: the counters of each disk, `loop0.reads`; sectors as bytes."""
    found: dict[str, float] = {}
    for line in text.splitlines()[2:]:
        name, *numbers = line.split()
        row = dict(zip(_DISK, map(parse_number, numbers), strict=False))
        row["read_bytes"], row["written_bytes"] = row["read_sectors"] * 512, row["write_sectors"] * 512
        found |= {f"{name}.{counter}": value for counter, value in row.items()}
    if not found:
        raise UnreadableError("no disk")
    return found


def parse_slabtop(text: str) -> Figures:
    """Read `slabtop -o`, all of its rows: the pages of all caches together, in K.

    Its own total is of objects without what is between them, so the column is added up.
    """
    _, heading, rows = text.partition("CACHE SIZE NAME")
    if not heading:
        raise UnreadableError("no table of caches")
    sizes = [row.split()[6] for row in rows.splitlines() if row.strip()]
    return {"bytes": sum(parse_number(size.removesuffix("K")) * 1024 for size in sizes), "caches": len(sizes)}


def parse_pmap(text: str) -> Figures:
    """Read `pmap -x PID`: its last line, the sums over all mappings."""
    found = re.search(r"^total kB +(\d+) +(\d+) +(\d+) *$", text, re.M)
    if found is None:
        raise UnreadableError("no totals")
    return dict(
        zip(("size_bytes", "rss_bytes", "dirty_bytes"), (int(part) * 1024 for part in found.groups()), strict=True)
    )


def parse_process_list(text: str) -> Figures:
    """Read `ps -e -o pid`: how many processes there are."""
    rows = parse_tables(text, "PID")
    if not rows:
        raise UnreadableError("no process")
    return {"processes": len(rows)}
