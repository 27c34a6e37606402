"""Programs that read, write and sync files and devices."""

from __future__ import annotations

from omn_core.testing.stepped import Workload, make_workload
from reference.programs.shapes import pace, repeat


def read_steadily(path: str, block_bytes: int, blocks: int, period_ns: int) -> Workload:
    """Read so many blocks past the page cache in each period, paced by the clock, until it is ended. Step: `ready`."""
    before = f"""
import mmap
target = os.open({path!r}, os.O_RDONLY | os.O_DIRECT)
block = mmap.mmap(-1, {block_bytes})
"""
    body = f"""
for place in range({blocks}):
    assert os.preadv(target, [block], place * {block_bytes}) == {block_bytes}
"""
    return pace(f"read {blocks} blocks a period", body, period_ns, before=before)


def write_through(path: str, size_bytes: int) -> Workload:
    """Write so many bytes in calls of 4 KiB into the page cache, then sync. Steps: `ready`, and `written` after it."""
    return make_workload(
        f"write {size_bytes} bytes",
        f"""
target = os.open({path!r}, os.O_WRONLY)
step("ready")
for place in range(0, {size_bytes}, 4096):
    os.pwrite(target, bytes(4096), place)
os.fsync(target)
step("written")
""",
    )


def sync_often(path: str, count: int) -> Workload:
    """Write to a file and sync it, so many times. Steps: `ready`, `synced`."""
    before = f"target = os.open({path!r}, os.O_WRONLY | os.O_CREAT)"
    body = "os.pwrite(target, bytes(65536), 0)\nos.fsync(target)"
    return repeat(f"sync {count} times", body, count, until="synced", before=before)


def write_back(path: str, size_bytes: int) -> Workload:
    """Write so many bytes into the page cache, and sync the file's whole file system. Steps: `ready`, `written`."""
    return make_workload(
        f"write {size_bytes} bytes back",
        f"""
import ctypes
target = os.open({path!r}, os.O_WRONLY | os.O_CREAT)
step("ready")
for place in range(0, {size_bytes}, 1 << 20):
    os.pwrite(target, bytes(1 << 20), place)
assert ctypes.CDLL(None).syncfs(target) == 0
step("written")
""",
    )


def write_together(path: str, count: int, threads: int) -> Workload:
    """Write to one file in several threads, so many times each: its lock is contended. Steps: `ready`, `written`."""
    return make_workload(
        f"write {count} times together",
        f"""
import threading
target = os.open({path!r}, os.O_WRONLY | os.O_CREAT)
block = bytes(1 << 20)
def write():
    for _ in range({count}):
        os.pwrite(target, block, 0)
step("ready")
together = [threading.Thread(target=write) for _ in range({threads})]
for one in together:
    one.start()
for one in together:
    one.join()
step("written")
""",
    )


def touch_file(path: str, size_bytes: int) -> Workload:
    """Write so many bytes into the page cache, in calls of 1 MiB. Steps: `ready`, `touched`."""
    return make_workload(
        f"write {size_bytes} bytes into the page cache",
        f"""
target = os.open({path!r}, os.O_WRONLY | os.O_CREAT)
step("ready")
for place in range(0, {size_bytes}, 1 << 20):
    os.pwrite(target, bytes(1 << 20), place)
step("touched")
""",
    )
