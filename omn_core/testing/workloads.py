"""Small programs whose behaviour is known to the byte, the page or the nanosecond, to hold a measurement against."""

from __future__ import annotations

import os
from collections.abc import Sequence

from omn_core.testing.stepped import Workload, make_workload


def touch_pages(count: int) -> Workload:
    """Write one byte to each of so many fresh pages of private anonymous memory, and hold them.

    Steps: `ready` before the first, `touched` after the last, with `minflt` (the faults that getrusage counted
    between them) and `page_bytes`.
    """
    return make_workload(
        f"touch {count} pages",
        f"""
import mmap
size = mmap.PAGESIZE
area = mmap.mmap(-1, {count} * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_NOHUGEPAGE)
step("ready")
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for offset in range(0, {count} * size, size):
    area[offset] = 1
after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
step("touched", minflt=after - before, page_bytes=size)
""",
    )


def touch_bytes(size_bytes: int) -> Workload:
    """Touch every page of so many bytes, rounded up to a page: steps as `touch_pages`."""
    page = os.sysconf("SC_PAGESIZE")
    return touch_pages(-(-size_bytes // page))


def share_bytes(size_bytes: int) -> Workload:
    """Touch memory, then fork: two processes map the same pages, and neither writes again.

    Steps: `shared`, with `child` (the other's pid) and `size_bytes`; the child ends with its parent.
    """
    return make_workload(
        f"share {size_bytes} bytes",
        f"""
import mmap, signal
area = mmap.mmap(-1, {size_bytes}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_NOHUGEPAGE)
area.write(b"\\1" * {size_bytes})
alive, held = os.pipe()
child = os.fork()
if child == 0:
    os.close(held)
    os.read(alive, 1)  # its end comes with the parent's, however that one ends
    os._exit(0)
try:
    step("shared", child=child, size_bytes={size_bytes})
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
""",
    )


def transfer_directly(path: str, block_bytes: int, *, reads: int = 0, writes: int = 0) -> Workload:
    """Read so many blocks from the start of a file or device and write as many as asked after them, each one call.

    Past the page cache (O_DIRECT): a block must be a multiple of the device's own. Steps: `ready` before the first,
    `transferred` after the last.
    """
    return make_workload(
        f"read {reads} and write {writes} blocks",
        f"""
import mmap
target = os.open({path!r}, os.O_RDWR | os.O_DIRECT)
block = mmap.mmap(-1, {block_bytes})
step("ready")
for place in range({reads}):
    assert os.preadv(target, [block], place * {block_bytes}) == {block_bytes}
for place in range({reads}, {reads + writes}):
    assert os.pwritev(target, [block], place * {block_bytes}) == {block_bytes}
step("transferred")
""",
    )


def spin(length_ns: int, cpu: int | None = None) -> Workload:
    """Run for so many nanoseconds of cpu time, pinned to one cpu if one is named.

    Steps: `ready` before, `spun` after, with `oncpu_ns` (what schedstat counted between them) and `wall_ns`.
    """
    return make_workload(
        f"spin {length_ns} ns",
        f"""
{_pin(cpu)}
step("ready")
wall, before = time.monotonic_ns(), oncpu_ns()
burn({length_ns})
after = oncpu_ns()
step("spun", oncpu_ns=after - before, wall_ns=time.monotonic_ns() - wall)
""",
    )


def duty_cycle(share: float, length_ns: int, period_ns: int = 20_000_000, cpu: int | None = None) -> Workload:
    """Run for a share of each period and sleep the rest, for so long by the wall.

    Steps: `ready` before, `cycled` after, with `oncpu_ns` (what schedstat counted between them) and `wall_ns`.
    """
    return make_workload(
        f"run {share:.0%} of the time",
        f"""
{_pin(cpu)}
step("ready")
opened, before = time.monotonic_ns(), oncpu_ns()
started = cpu_ns()
for period in range(1, {length_ns} // {period_ns} + 1):
    burn(max(int(period * {period_ns} * {share}) - (cpu_ns() - started), 0))
    left = opened + period * {period_ns} - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)
after = oncpu_ns()
step("cycled", oncpu_ns=after - before, wall_ns=time.monotonic_ns() - opened)
""",
    )


def threads(names: Sequence[bytes], length_ns: int = 0) -> Workload:
    """Start a thread of each name (at most 15 bytes, none of them zero), run each for so much cpu time, and end them.

    Steps: `ready` (the threads exist and wait), with `tids`; `ran` (they have run and wait), with `oncpu_ns` of each
    as schedstat counted it between; `ended` (only the main thread is left).
    """
    return make_workload(
        f"{len(names)} threads",
        f"""
import ctypes, threading
names, libc = {list(names)!r}, ctypes.CDLL(None)
tids, spent = [None] * len(names), [None] * len(names)
gates = [threading.Barrier(len(names) + 1) for _ in range(4)]

def body(index):
    libc.prctl(15, ctypes.c_char_p(names[index]), 0, 0, 0)
    tids[index] = threading.get_native_id()
    gates[0].wait()
    gates[1].wait()
    before = oncpu_ns(tids[index])
    burn({length_ns})
    spent[index] = oncpu_ns(tids[index]) - before
    gates[2].wait()
    gates[3].wait()

started = [threading.Thread(target=body, args=(index,)) for index in range(len(names))]
for thread in started:
    thread.start()
gates[0].wait()
step("ready", tids=tids)
gates[1].wait()
gates[2].wait()
step("ran", tids=tids, oncpu_ns=spent)
gates[3].wait()
for thread in started:
    thread.join()
# Python's join returns before the kernel has let the thread go.
while len(os.listdir("/proc/self/task")) > 1:
    time.sleep(0.001)
step("ended", tids=tids)
""",
    )


def rename(comm: bytes) -> Workload:
    """Take a name (at most 15 bytes, none of them zero), as prctl(2) PR_SET_NAME lets any task do. Step: `named`."""
    return make_workload(
        f"be named {comm!r}",
        f"""
import ctypes
ctypes.CDLL(None).prctl(15, ctypes.c_char_p({comm!r}), 0, 0, 0)
step("named")
""",
    )


def daemonise(lifetime_s: float = 30.0) -> Workload:
    """Fork twice and end, leaving a process of another session behind for at most so long.

    Step: `forked`, reported by the program itself, with `daemon` (the other's pid); the program ends after it.
    """
    return make_workload(
        "daemonise",
        f"""
pipe = os.pipe()
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.write(pipe[1], str(os.getpid()).encode())
    os.close(pipe[1])
    time.sleep({lifetime_s})
    os._exit(0)
os.waitpid(child, 0)
step("forked", daemon=int(os.read(pipe[0], 20)))
""",
    )


def end_with(code: int | None = None, signal_number: int | None = None) -> Workload:
    """End with an exit code, or by a signal it sends itself. Step: `ready`."""
    action = f"os._exit({code})" if signal_number is None else f"os.kill(os.getpid(), {int(signal_number)})"
    return make_workload("end", f'\nstep("ready")\n{action}\ntime.sleep(30)\n')


def _pin(cpu: int | None) -> str:
    return "" if cpu is None else f"os.sched_setaffinity(0, {{{cpu}}})"
