"""sysstat's pidstat, mpstat, iostat and sar: the rows that are averages of the whole run. kB is 1024 bytes."""

from __future__ import annotations

from reference.parsing import Figures, UnreadableError, parse_number, parse_tables

_MPSTAT_BUSY = ("%usr", "%nice", "%sys", "%irq", "%soft", "%guest", "%gnice")
"""The columns of omn's busy share; mpstat takes guests' time out of %usr and %nice, the kernel and omn do not."""

_TRANSFERS = {
    "r/s": ("reads_per_second", 1),
    "w/s": ("writes_per_second", 1),
    "rkB/s": ("read_bytes_per_second", 1024),
    "wkB/s": ("written_bytes_per_second", 1024),
    "rrqm/s": ("read_merges_per_second", 1),
    "wrqm/s": ("write_merges_per_second", 1),
    "aqu-sz": ("queue", 1),
    "%util": ("util", 0.01),
}
_LOAD = {"ldavg-1": "load1", "ldavg-5": "load5", "ldavg-15": "load15", "plist-sz": "tasks", "runq-sz": "runnable"}
_TOTALS = {"kB_read": "read_bytes", "kB_wrtn": "written_bytes", "kB_dscd": "discarded_bytes"}
_MEMORY = {
    "kbmemfree": "free_bytes",
    "kbavail": "available_bytes",
    "kbbuffers": "buffers_bytes",
    "kbcached": "cached_bytes",
    "kbactive": "active_bytes",
    "kbinact": "inactive_bytes",
}


def _averages(text: str, *mark: str) -> list[dict[str, str]]:
    """Return the rows of averages. Raises UnreadableError where there are none."""
    rows = [row for row in parse_tables(text, *mark) if "Average:" in row.values()]
    if not rows:
        raise UnreadableError("no row of averages")
    return rows


def _average(text: str, *mark: str) -> dict[str, str]:
    """Return the one row of averages. Raises UnreadableError for none, or several."""
    rows = _averages(text, *mark)
    if len(rows) != 1:
        raise UnreadableError(f"{len(rows)} rows of averages, and one is expected")
    return rows[0]


def _take(row: dict[str, str], *names: str) -> list[float]:
    """Return a row's numbers under headings. Raises UnreadableError where a heading is not there."""
    absent = [name for name in names if name not in row]
    if absent:
        raise UnreadableError(f"no column {', '.join(absent)}")
    return [parse_number(row[name]) for name in names]


def parse_pidstat_memory(text: str) -> Figures:
    """Read `pidstat -r -p PID`: sizes, and faults a second."""
    minor, major, virtual, resident = _take(_average(text, "minflt/s", "RSS"), "minflt/s", "majflt/s", "VSZ", "RSS")
    sizes = {"rss_bytes": resident * 1024, "virtual_bytes": virtual * 1024}
    return {**sizes, "minor_per_second": minor, "major_per_second": major}


def parse_pidstat_cpu(text: str) -> Figures:
    """Read `pidstat -u -p PID`: shares of one cpu."""
    user, system, both = _take(_average(text, "%usr", "%CPU"), "%usr", "%system", "%CPU")
    return {"user": user / 100, "system": system / 100, "util": both / 100}


def parse_pidstat_io(text: str) -> Figures:
    """Read `pidstat -d -p PID`. It prints -1 for an account it may not read, which is no figure."""
    reads, writes = _take(_average(text, "kB_rd/s", "kB_wr/s"), "kB_rd/s", "kB_wr/s")
    both = {"read_bytes_per_second": reads * 1024, "written_bytes_per_second": writes * 1024}
    return {name: value for name, value in both.items() if value >= 0}


def parse_pidstat_switches(text: str) -> Figures:
    """Read `pidstat -w -p PID`: switches a second, voluntary and not."""
    voluntary, forced = _take(_average(text, "cswch/s", "nvcswch/s"), "cswch/s", "nvcswch/s")
    return {"voluntary_per_second": voluntary, "involuntary_per_second": forced}


def parse_mpstat(text: str) -> Figures:
    """Read `mpstat -P ALL`: shares of each cpu, as `all.util` and `0.util`."""
    found: dict[str, float] = {}
    for row in _averages(text, "CPU", "%usr", "%idle"):
        steal, idle, iowait = _take(row, "%steal", "%idle", "%iowait")
        busy = sum(_take(row, *_MPSTAT_BUSY)) / 100
        shares = {"util": busy, "steal": steal / 100, "idle": idle / 100, "iowait": iowait / 100}
        found |= {f"{row['CPU']}.{name}": value for name, value in shares.items()}
    return found


def parse_sar_cpu(text: str) -> Figures:
    """Read `sar -u`: shares of all cpus; its %system holds interrupts too."""
    user, nice, system, idle = _take(_average(text, "%user", "%idle"), "%user", "%nice", "%system", "%idle")
    return {"util": (user + nice + system) / 100, "idle": idle / 100}


def parse_sar_load(text: str) -> Figures:
    """Read `sar -q`: the averages of the load, and all tasks."""
    row = _average(text, "runq-sz", "ldavg-1")
    return dict(zip(_LOAD.values(), _take(row, *_LOAD), strict=True))


def parse_sar_memory(text: str) -> Figures:
    """Read `sar -r ALL`: sizes of the machine's memory."""
    row = _average(text, "kbmemfree", "kbcached")
    return {name: value * 1024 for name, value in zip(_MEMORY.values(), _take(row, *_MEMORY), strict=True)}


def parse_sar_paging(text: str) -> Figures:
    """Read `sar -B`: faults and pages a second."""
    faults, major = _take(_average(text, "pgpgin/s", "fault/s"), "fault/s", "majflt/s")
    return {"faults_per_second": faults, "major_per_second": major}


def parse_sar_tasks(text: str) -> Figures:
    """Read `sar -w`: tasks made and switches, a second."""
    forks, switches = _take(_average(text, "proc/s", "cswch/s"), "proc/s", "cswch/s")
    return {"forks_per_second": forks, "switches_per_second": switches}


def parse_iostat_totals(text: str) -> Figures:
    """Read `iostat -d -k DEVICE`: what each device moved since the machine started, `loop0.read_bytes`."""
    rows = parse_tables(text, "Device", "kB_read")
    if not rows:
        raise UnreadableError("no device")
    return {
        f"{row['Device']}.{name}": value * 1024
        for row in rows
        for name, value in zip(_TOTALS.values(), _take(row, *_TOTALS), strict=True)
    }


def parse_iostat_extended(text: str) -> Figures:
    """Read `iostat -dxyk SECONDS 1 DEVICE`: rates and shares of each device, `loop0.util`."""
    rows = parse_tables(text, "Device", "aqu-sz", "%util")
    if not rows:
        raise UnreadableError("no device")
    return {
        f"{row['Device']}.{name}": value * factor
        for row in rows
        for (name, factor), value in zip(_TRANSFERS.values(), _take(row, *_TRANSFERS), strict=True)
    }


def parse_sar_interfaces(text: str) -> Figures:
    """Read `sar -n DEV`: packets and bytes a second of each interface, `eth0.tx_bytes_per_second`."""
    names = {"rxpck/s": "rx_packets", "txpck/s": "tx_packets", "rxkB/s": "rx_bytes", "txkB/s": "tx_bytes"}
    return {
        f"{row['IFACE']}.{name}_per_second": value * (1024 if name.endswith("bytes") else 1)
        for row in _averages(text, "IFACE", "rxpck/s")
        for name, value in zip(names.values(), _take(row, *names), strict=True)
    }


def parse_mpstat_softirq(text: str) -> Figures:
    """Read `mpstat -I SCPU`: how often a second each kind was served, by its name, all cpus together."""
    found: dict[str, float] = {}
    for row in _averages(text, "CPU", "TIMER/s"):
        for heading in row:
            if heading.endswith("/s"):
                kind = heading.removesuffix("/s")
                found[kind] = found.get(kind, 0) + parse_number(row[heading])
    return found


def parse_sar_sockets(text: str) -> Figures:
    """Read `sar -n SOCK`: sockets in use."""
    names = {"totsck": "sockets", "tcpsck": "tcp", "udpsck": "udp"}
    row = _average(text, "totsck", "udpsck")
    return dict(zip(names.values(), _take(row, *names), strict=True))
