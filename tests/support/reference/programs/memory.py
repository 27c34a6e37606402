"""Programs that fault pages in, ask an allocator for blocks, and have garbage and zones cleared up."""

from __future__ import annotations

from omn_core.testing.stepped import Workload
from reference.programs.shapes import pace, repeat


def fault_steadily(pages: int, period_ns: int) -> Workload:
    """Touch so many fresh pages in each period, paced by the clock, until it is ended. Step: `ready`."""
    body = f"""
area = mmap.mmap(-1, {pages} * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_NOHUGEPAGE)
for offset in range(0, {pages} * size, size):
    area[offset] = 1
area.close()
"""
    return pace(f"fault {pages} pages a period", body, period_ns, before="import mmap\nsize = mmap.PAGESIZE")


def allocate_often(count: int) -> Workload:
    """Ask the C library for a block and give it back, so many times. Steps: `ready`, `allocated`."""
    before = """
import ctypes
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
"""
    body = "library.free(library.malloc(3000))"
    return repeat(f"allocate {count} times", body, count, until="allocated", before=before)


def collect_garbage(count: int) -> Workload:
    """Have Python collect its garbage so many times. Steps: `ready`, `collected`."""
    return repeat(f"collect {count} times", "gc.collect()", count, until="collected", before="import gc")


def compact_memory(count: int) -> Workload:
    """Have the kernel compact every zone so many times. Steps: `ready`, `compacted`."""
    before = 'target = os.open("/proc/sys/vm/compact_memory", os.O_WRONLY)'
    return repeat(f"compact {count} times", 'os.write(target, b"1")', count, until="compacted", before=before)
