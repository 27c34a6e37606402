"""Programs that start processes and threads, open descriptors, call the kernel and send signals."""

from __future__ import annotations

import textwrap

from omn_core.testing.stepped import Workload, make_workload
from reference.programs.shapes import pace, repeat

_FORK = """
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


def open_descriptors(count: int) -> Workload:
    """Open /dev/null so many times. Steps: `ready` before the first, `opened` after the last."""
    body = 'held.append(os.open("/dev/null", os.O_RDONLY))'
    return repeat(f"open {count} descriptors", body, count, until="opened", before="held = []")


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
    return repeat(f"fork {count} children", _FORK, count, until="forked")


def fork_steadily(count: int, period_ns: int) -> Workload:
    """Fork so many children in each period, paced by the clock, until it is ended. Step: `ready`."""
    body = f"for _ in range({count}):{textwrap.indent(_FORK, '    ')}"
    return pace(f"fork {count} children a period", body, period_ns)


def execute_programs(count: int) -> Workload:
    """Execute true(1) so many times, each waited for. Steps: `ready` before the first, `executed` after the last."""
    body = 'os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)'
    return repeat(f"execute {count} programs", body, count, until="executed")


def call_often(count: int) -> Workload:
    """Make the system call getppid so many times. Steps: `ready`, `called`."""
    return repeat(f"call {count} times", "os.getppid()", count, until="called")


def send_signals(count: int) -> Workload:
    """Send itself a signal that it ignores so many times. Steps: `ready`, `sent`."""
    body = "os.kill(os.getpid(), signal.SIGURG)"
    return repeat(f"send {count} signals", body, count, until="sent", before="import signal")
