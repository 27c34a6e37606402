"""What the machine's own folders of /sys hold: cpus, memory nodes, huge pages."""

from __future__ import annotations

import os

from omn_kernel.polled import place, read_file

_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"
_NODES = "/sys/devices/system/node"
_CPUS = "/sys/devices/system/cpu"


def parse_number_list(content: bytes) -> tuple[int, ...]:
    """Parse the kernel's spelling of a set of numbers (`0-3,8`), empty for an empty one."""
    numbers: list[int] = []
    for part in content.strip().split(b","):
        first, dash, last = part.partition(b"-")
        if first:
            numbers.extend(range(int(first), int(last if dash else first) + 1))
    return tuple(numbers)


def read_cpus(sysroot: str, which: str) -> tuple[int, ...]:
    """Read which cpus are `possible`, `present` or `online`. Raises OSError where the machine has no such file."""
    return parse_number_list(read_file(sysroot, f"{_CPUS}/{which}"))


def read_nodes(sysroot: str) -> tuple[int, ...]:
    """Read which memory nodes are online. Raises FileNotFoundError on a kernel built without NUMA."""
    return parse_number_list(read_file(sysroot, f"{_NODES}/online"))


def find_cpu_nodes(sysroot: str) -> dict[int, int]:
    """Find the memory node of each cpu that is online, none on a kernel built without NUMA."""
    try:
        nodes = read_nodes(sysroot)
    except FileNotFoundError:
        return {}
    cpus = {node: parse_number_list(read_file(sysroot, f"{_NODES}/node{node}/cpulist")) for node in nodes}
    return {cpu: node for node, own in cpus.items() for cpu in own}


def parse_node_meminfo(content: bytes) -> dict[bytes, int]:
    """Parse /sys/devices/system/node/node<N>/meminfo by the kernel's names, bytes where it writes kB."""
    amounts: dict[bytes, int] = {}
    for line in content.split(b"\n"):
        front, colon, rest = line.partition(b":")
        if colon:
            amounts[front.rpartition(b" ")[2]] = int(rest[:-3]) * 1024 if rest.endswith(b" kB") else int(rest)
    return amounts


def find_huge_page_folders(sysroot: str) -> dict[int, str]:
    """Find the counters of each size of transparent huge page (Linux 6.8 and later): bytes to the stats folder."""
    folders: dict[int, str] = {}
    base = place(sysroot, _HUGE_PAGES)
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else ():
        size = name.removeprefix("hugepages-").removesuffix("kB")
        if size.isdigit() and os.path.isdir(f"{base}/{name}/stats"):
            folders[int(size) * 1024] = f"{_HUGE_PAGES}/{name}/stats"
    return dict(sorted(folders.items()))


def read_pmd_page_bytes(sysroot: str) -> int:
    """Read the bytes one page middle directory maps, the size of a classic huge page."""
    return int(read_file(sysroot, f"{_HUGE_PAGES}/hpage_pmd_size"))
