"""Programs that give a cpu up, change it, share it with others, and wait for locks."""

from __future__ import annotations

from omn_core.testing.stepped import Workload, make_workload
from reference.programs.shapes import pace, repeat


def contend(spinners: int, length_ns: int, cpu: int) -> Workload:
    """Run so many processes on one cpu, each so much cpu time, as nice as can be. Steps: `ready`, `contended`."""
    return make_workload(
        f"{spinners} spinners on one cpu",
        f"""
import ctypes, signal
step("ready")
children = []
for _ in range({spinners}):
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends with its parent, however that one does
        os.sched_setaffinity(0, {{{cpu}}})
        os.nice(19)
        burn({length_ns})
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
step("contended")
""",
    )


def share_cpu(length_ns: int, cpu: int) -> Workload:
    """Run for so much cpu time on a cpu that a child spins on too. Steps: `ready`, `shared`; the child ends between."""
    return make_workload(
        "share a cpu",
        f"""
import ctypes, signal
os.sched_setaffinity(0, {{{cpu}}})
step("ready")
child = os.fork()
if child == 0:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    burn(10 * {length_ns})
    os._exit(0)
burn({length_ns})
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
step("shared")
""",
    )


def sleep_often(count: int) -> Workload:
    """Sleep so many times for 50 us, each of which gives the cpu up once. Steps: `ready`, `slept`."""
    return repeat(f"sleep {count} times", "time.sleep(0.00005)", count, until="slept")


def sleep_steadily(period_ns: int) -> Workload:
    """Sleep to the end of each period, paced by the clock, until it is ended. Step: `ready`."""
    return pace("sleep once a period", "", period_ns)


def change_cpus(count: int) -> Workload:
    """Move to another cpu so many times, by asking for it. Steps: `ready`, `moved`."""
    before = "cpus = sorted(os.sched_getaffinity(0))\nos.sched_setaffinity(0, cpus[:1])"
    body = "os.sched_setaffinity(0, [cpus[1 - turn % 2]])"
    return repeat(f"move {count} times", body, count, until="moved", before=before)


def wait_in_vain(count: int) -> Workload:
    """Wait a millisecond for a lock that is held, so many times. Steps: `ready`, `waited`."""
    before = "import threading\nheld = threading.Lock()\nheld.acquire()"
    return repeat(f"wait {count} times for a lock", "held.acquire(timeout=0.001)", count, until="waited", before=before)


def lock_often(count: int) -> Workload:
    """Lock a mutex of the C library and unlock it, so many times. Steps: `ready`, `locked`."""
    before = "import ctypes\nlibrary, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)"
    body = "library.pthread_mutex_lock(mutex)\nlibrary.pthread_mutex_unlock(mutex)"
    return repeat(f"lock {count} times", body, count, until="locked", before=before)


def mix_checksums(share: float) -> Workload:
    """Spend so much of the time in zlib, in spells of random length, the rest in Python, until it is ended.

    Step: `ready`. The spells keep it out of step with whatever looks at it at a steady rate.
    """
    return make_workload(
        f"spend {share} in zlib",
        f"""
import random, zlib
data = bytes(100_000)
numbers = range(2_000)
step("ready")
spells = random.Random(1)
while True:
    length_ns = spells.randrange(50_000, 1_500_000)
    until = time.perf_counter_ns() + length_ns * {share}
    while time.perf_counter_ns() < until:
        zlib.crc32(data)
    until = time.perf_counter_ns() + length_ns * (1 - {share})
    while time.perf_counter_ns() < until:
        sum(numbers)
""",
    )
