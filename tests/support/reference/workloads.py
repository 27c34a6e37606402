"""Workloads of pairs beside those that `omn_core.testing.workloads` publishes, and how a pair's is started."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from omn_core.testing import workloads as published
from omn_core.testing.stepped import Workload, WorkloadError, make_workload
from reference.model import Step, fill


def open_descriptors(count: int) -> Workload:
    """Open /dev/null so many times. Steps: `ready` before the first, `opened` after the last."""
    return make_workload(
        f"open {count} descriptors",
        f"""
step("ready")
held = [os.open("/dev/null", os.O_RDONLY) for _ in range({count})]
step("opened")
""",
    )


def start_threads(count: int) -> Workload:
    """Start so many threads that wait. Steps: `ready` before the first, `started` when all are there."""
    return make_workload(
        f"start {count} threads",
        f"""
import threading
step("ready")
over = threading.Event()
held = [threading.Thread(target=over.wait, daemon=True) for _ in range({count})]
for thread in held:
    thread.start()
step("started")
over.set()
""",
    )


def fork_children(count: int) -> Workload:
    """Fork so many times, each child waited for. Steps: `ready` before the first, `forked` after the last."""
    return make_workload(
        f"fork {count} children",
        f"""
step("ready")
for _ in range({count}):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
step("forked")
""",
    )


def execute_programs(count: int) -> Workload:
    """Execute true(1) so many times, each waited for. Steps: `ready` before the first, `executed` after the last."""
    return make_workload(
        f"execute {count} programs",
        f"""
step("ready")
for _ in range({count}):
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {{}}), 0)
step("executed")
""",
    )


def fault_steadily(pages: int, period_ns: int) -> Workload:
    """Touch so many fresh pages in each period, paced by the clock, until it is ended. Step: `ready`."""
    return make_workload(
        f"fault {pages} pages a period",
        f"""
import mmap
size = mmap.PAGESIZE
step("ready")
{_pace(period_ns)}
    area = mmap.mmap(-1, {pages} * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for offset in range(0, {pages} * size, size):
        area[offset] = 1
    area.close()
""",
    )


def read_steadily(path: str, block_bytes: int, blocks: int, period_ns: int) -> Workload:
    """Read so many blocks past the page cache in each period, paced by the clock, until it is ended. Step: `ready`."""
    return make_workload(
        f"read {blocks} blocks a period",
        f"""
import mmap
target = os.open({path!r}, os.O_RDONLY | os.O_DIRECT)
block = mmap.mmap(-1, {block_bytes})
step("ready")
{_pace(period_ns)}
    for place in range({blocks}):
        assert os.preadv(target, [block], place * {block_bytes}) == {block_bytes}
""",
    )


def fork_steadily(count: int, period_ns: int) -> Workload:
    """Fork so many children in each period, paced by the clock, until it is ended. Step: `ready`."""
    return make_workload(
        f"fork {count} children a period",
        f"""
step("ready")
{_pace(period_ns)}
    for _ in range({count}):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
""",
    )


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


def sleep_often(count: int) -> Workload:
    """Sleep so many times for 50 us, each of which gives the cpu up once. Steps: `ready`, `slept`."""
    return make_workload(
        f"sleep {count} times",
        f"""
step("ready")
for _ in range({count}):
    time.sleep(0.00005)
step("slept")
""",
    )


def sleep_steadily(period_ns: int) -> Workload:
    """Sleep to the end of each period, paced by the clock, until it is ended. Step: `ready`."""
    return make_workload("sleep once a period", f"\nstep('ready')\n{_pace(period_ns)}    pass\n")


def change_cpus(count: int) -> Workload:
    """Move to another cpu so many times, by asking for it. Steps: `ready`, `moved`."""
    return make_workload(
        f"move {count} times",
        f"""
cpus = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cpus[:1])
step("ready")
for turn in range(1, {count} + 1):
    os.sched_setaffinity(0, [cpus[turn % 2]])
step("moved")
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


_IN_NAMESPACE = """
import ctypes, socket
place = os.open("/run/netns/{netns}", os.O_RDONLY)
assert ctypes.CDLL(None).setns(place, 0x40000000) == 0, "setns"
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to = ("{address}", 9)
step("ready")
"""


def send_datagrams(netns: str, address: str, count: int, size_bytes: int) -> Workload:
    """Send so many datagrams of so many bytes to a host from a network namespace. Steps: `ready`, `sent`."""
    head = _IN_NAMESPACE.format(netns=netns, address=address)
    body = f'for _ in range({count}):\n    out.sendto(bytes({size_bytes}), to)\nstep("sent")\n'
    return make_workload(f"send {count} datagrams", head + body)


def send_steadily(netns: str, address: str, count: int, size_bytes: int, period_ns: int) -> Workload:
    """Send so many datagrams in each period, paced by the clock, until it is ended. Step: `ready`."""
    head = _IN_NAMESPACE.format(netns=netns, address=address)
    body = f"{_pace(period_ns)}    for _ in range({count}):\n        out.sendto(bytes({size_bytes}), to)\n"
    return make_workload(f"send {count} datagrams a period", head + body)


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


def _pace(period_ns: int) -> str:
    """Return the head of a loop whose body, indented, is run once in each period."""
    return f"""
due = time.monotonic_ns()
while True:
    due += {period_ns}
    time.sleep(max(due - time.monotonic_ns(), 0) / 1e9)
"""


@attrs.frozen
class Wrapped(Workload):
    """A workload that a tool starts: the tool's words stand before its own."""

    prefix: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The tool, then the workload."""
        return (*self.prefix, sys.executable, "-c", self.source)


def make_pairs_workload(step: Step, words: Mapping[str, str]) -> Workload:
    """Make a pair's workload: by its name here or among the published ones, or `module:function`.

    Texts among its arguments may hold words in braces. Raises LookupError for a workload that is not there.
    """
    maker = find_maker(step.name)
    if maker is None:
        raise LookupError(f"there is no workload {step.name!r}")
    given = {name: fill(value, words) if isinstance(value, str) else value for name, value in step.arguments.items()}
    made: Workload = maker(**given)
    return made


def find_maker(name: str) -> Callable[..., Workload] | None:
    """Return the function that makes a workload, None where there is none of the name."""
    module, colon, inner = name.partition(":")
    if colon:
        return getattr(importlib.import_module(module), inner, None)
    return globals().get(name) if name in _OWN else getattr(published, name, None)


def find_innermost(pid: int) -> int:
    """Return the last of a process's first children: what the tools that stand before it have started."""
    while True:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            return pid
        pid = int(children[0])


def connect_locally(count: int, port: int) -> Workload:
    """Make so many TCP connections on the loopback, both ends its own, used once. Steps: `ready`, `connected`."""
    return make_workload(
        f"make {count} connections",
        f"""
import socket
step("ready")
listening = socket.create_server(("127.0.0.1", {port}))
held = []
for _ in range({count}):
    near = socket.create_connection(("127.0.0.1", {port}))
    far, _ = listening.accept()
    near.sendall(b"x")
    far.recv(1)
    held += [near, far]
step("connected")
""",
    )


def open_udp_sockets(count: int, datagrams: int) -> Workload:
    """Open and bind so many UDP sockets, and send datagrams to the first. Steps: `ready`, `opened`."""
    return make_workload(
        f"open {count} sockets",
        f"""
import socket
step("ready")
held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range({count})]
for one in held:
    one.bind(("127.0.0.1", 0))
for _ in range({datagrams}):
    held[-1].sendto(b"x", held[0].getsockname())
    held[0].recv(1)
step("opened")
""",
    )


def send_signals(count: int) -> Workload:
    """Send itself a signal that it ignores so many times. Steps: `ready`, `sent`."""
    return make_workload(
        f"send {count} signals",
        f"""
import signal
step("ready")
for _ in range({count}):
    os.kill(os.getpid(), signal.SIGURG)
step("sent")
""",
    )


def wait_in_vain(count: int) -> Workload:
    """Wait a millisecond for a lock that is held, so many times. Steps: `ready`, `waited`."""
    return make_workload(
        f"wait {count} times for a lock",
        f"""
import threading
held = threading.Lock()
held.acquire()
step("ready")
for _ in range({count}):
    held.acquire(timeout=0.001)
step("waited")
""",
    )


def call_often(count: int) -> Workload:
    """Make the system call getppid so many times. Steps: `ready`, `called`."""
    return make_workload(
        f"call {count} times",
        f"""
step("ready")
for _ in range({count}):
    os.getppid()
step("called")
""",
    )


def sync_often(path: str, count: int) -> Workload:
    """Write to a file and sync it, so many times. Steps: `ready`, `synced`."""
    return make_workload(
        f"sync {count} times",
        f"""
target = os.open({path!r}, os.O_WRONLY | os.O_CREAT)
step("ready")
for _ in range({count}):
    os.pwrite(target, bytes(65536), 0)
    os.fsync(target)
step("synced")
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


def allocate_often(count: int) -> Workload:
    """Ask the C library for a block and give it back, so many times. Steps: `ready`, `allocated`."""
    return make_workload(
        f"allocate {count} times",
        f"""
import ctypes
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.free.argtypes = [ctypes.c_void_p]
step("ready")
for _ in range({count}):
    library.free(library.malloc(3000))
step("allocated")
""",
    )


def lock_often(count: int) -> Workload:
    """Lock a mutex of the C library and unlock it, so many times. Steps: `ready`, `locked`."""
    return make_workload(
        f"lock {count} times",
        f"""
import ctypes
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
step("ready")
for _ in range({count}):
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_unlock(mutex)
step("locked")
""",
    )


def collect_garbage(count: int) -> Workload:
    """Have Python collect its garbage so many times. Steps: `ready`, `collected`."""
    return make_workload(
        f"collect {count} times",
        f"""
import gc
step("ready")
for _ in range({count}):
    gc.collect()
step("collected")
""",
    )


def compact_memory(count: int) -> Workload:
    """Have the kernel compact every zone so many times. Steps: `ready`, `compacted`."""
    return make_workload(
        f"compact {count} times",
        f"""
target = os.open("/proc/sys/vm/compact_memory", os.O_WRONLY)
step("ready")
for _ in range({count}):
    os.write(target, b"1")
step("compacted")
""",
    )


def connect_and_close(count: int, port: int) -> Workload:
    """Make so many TCP connections on the loopback one after another, and close both ends. Steps: `ready`, `closed`."""
    return make_workload(
        f"make and close {count} connections",
        f"""
import socket
listening = socket.create_server(("127.0.0.1", {port}))
step("ready")
for _ in range({count}):
    near = socket.create_connection(("127.0.0.1", {port}))
    far, _ = listening.accept()
    near.close()
    far.recv(1)
    far.close()
step("closed")
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


def ask_in_vain(netns: str, address: str, count: int) -> Workload:
    """Ask for so many TCP connections of a host that is not there, until each was asked for again by the kernel.

    Steps: `ready`, `repeated`. The second asking is a second after the first, the third two more after that.
    """
    return make_workload(
        f"ask for {count} connections in vain",
        f"""
import ctypes, select, socket, struct, subprocess
place = os.open("/run/netns/{netns}", os.O_RDONLY)
assert ctypes.CDLL(None).setns(place, 0x40000000) == 0, "setns"
absent = ["lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "ref0"]
subprocess.run(["ip", "neighbour", "replace", "{address}", *absent], check=True)
asking = [socket.socket() for _ in range({count})]
step("ready")
for one in asking:
    one.setblocking(False)
    one.connect_ex(("{address}", 9))
def repeated(one):
    told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return struct.unpack_from("I", told, 100)[0]  # tcpi_total_retrans
while not all(repeated(one) for one in asking):
    time.sleep(0.01)
step("repeated")
""",
    )


def wait_blocked(pid: int, timeout_s: float) -> None:
    """Wait until a workload that reported a step sleeps in it.

    Between the report and the sleep it still runs, or waits for a cpu that others keep from it, and its counters move.
    Raises WorkloadError where it does neither within the time.
    """
    deadline = time.monotonic() + timeout_s
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        if time.monotonic() > deadline:
            raise WorkloadError(f"process {pid} did not sleep at its step in {timeout_s} s")
        time.sleep(0.001)


_OWN = frozenset(
    {
        "open_descriptors", "start_threads", "fork_children", "execute_programs", "fork_steadily", "fault_steadily",
        "mix_checksums", "read_steadily", "write_through", "contend", "sleep_often", "sleep_steadily", "change_cpus",
        "share_cpu", "send_datagrams", "send_steadily", "connect_locally", "open_udp_sockets", "send_signals",
        "wait_in_vain", "call_often", "sync_often", "write_together", "allocate_often", "lock_often", "collect_garbage",
        "compact_memory", "connect_and_close", "touch_file", "ask_in_vain",
    }
)  # fmt: skip
