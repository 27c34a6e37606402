"""What /proc/cpuinfo says of cpus (proc(5)). Pure functions from bytes; each architecture writes lines of its own."""

from __future__ import annotations

from collections.abc import Iterator

_HZ_PER_MHZ = 1_000_000


def parse_cpu_clocks(content: bytes) -> dict[int, int | None]:
    """Parse the clock of each cpu of /proc/cpuinfo, hertz; None for a cpu of which it states none, as off x86."""
    hertz: dict[int, int | None] = {}
    cpu = None
    for name, value in _iter_fields(content):
        if name == b"processor" and value.isdigit():
            cpu = int(value)
            hertz[cpu] = None
        elif name == b"cpu MHz" and cpu is not None:
            hertz[cpu] = round(float(value) * _HZ_PER_MHZ)
    return hertz


def has_clock_counters(content: bytes) -> bool:
    """Tell whether /proc/cpuinfo lists APERF and MPERF among the first cpu's flags."""
    flags = next((value for name, value in _iter_fields(content) if name == b"flags"), b"")
    return b"aperfmperf" in flags.split()


def _iter_fields(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in content.split(b"\n"):
        name, colon, value = line.partition(b":")
        if colon:
            yield name.strip(), value.strip()
