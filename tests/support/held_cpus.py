"""Every cpu held by tasks of a test's own, so that nobody else's come between what it does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

MS = 1_000_000
_MOST_NS = 500 * MS
"""How long at most: the kernel takes real-time tasks off their cpus after 950 ms of a second, for those that starve."""


@contextmanager
def hold_cpus() -> Iterator[int]:
    """Run at a real-time priority, over a task on each cpu that spins at a lower one for as long as this lasts.

    Yields the time (CLOCK_MONOTONIC) until when they do at most: what took longer has to be done again. What a kernel's
    worker threads would have to do waits. Skips where such priorities are refused.
    """
    ordinary = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    except PermissionError:
        pytest.skip("real-time priorities are refused here")
    reading, writing = os.pipe()
    spinners = []
    end_ns = time.monotonic_ns() + _MOST_NS
    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            spinners.append(_spin(cpu, writing, end_ns))
            os.read(reading, 1)
        yield end_ns
    finally:
        os.sched_setscheduler(0, *ordinary)
        os.close(reading)
        os.close(writing)
        for pid in spinners:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _spin(cpu: int, said: int, end_ns: int) -> int:
    if (pid := os.fork()) != 0:
        return pid
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    os.write(said, b"s")
    while time.monotonic_ns() < end_ns:
        pass
    os._exit(0)
