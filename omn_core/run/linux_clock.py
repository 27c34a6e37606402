"""Linux's clocks: the cpu of one process or thread, and a timer that a poll can wait for."""

from __future__ import annotations

import ctypes
import os
import time

_CPUCLOCK_SCHED = 2
_TFD_TIMER_ABSTIME = 1
_NANOSECONDS = 1_000_000_000

_libc = ctypes.CDLL(None, use_errno=True)
_settime = _libc.timerfd_settime


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


def find_process_cpu_ns(pid: int) -> int | None:
    """Return the cpu a process has used, all its threads and the dead ones among them, in nanoseconds.

    The kernel's process clock (clock_gettime on `(~pid << 3) | 2`, as clock_getcpuclockid makes it) needs no privilege
    and still answers for a zombie. None where there is no such process.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None


def find_thread_cpu_ns(pid: int, tid: int) -> int | None:
    """Return the cpu a thread has used, in nanoseconds: the first field of /proc/<pid>/task/<tid>/schedstat.

    Another process's thread has no clock that may be read. None where the thread is gone or the kernel keeps no such
    account (CONFIG_SCHED_INFO).
    """
    try:
        with open(f"/proc/{pid}/task/{tid}/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[0])
    except OSError:
        return None


def ticks_to_ns(ticks: int) -> int:
    """Return clock ticks (those of /proc, usually 10 ms each) in nanoseconds."""
    return ticks * _NANOSECONDS // os.sysconf("SC_CLK_TCK")


class Timer:
    """A timer on CLOCK_MONOTONIC (timerfd): `descriptor` becomes readable at the instant it was set to.

    poll() waits in milliseconds; this one is exact to the scheduler's slack.
    """

    def __init__(self) -> None:
        self.descriptor = _checked(_libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        # Set once a tick: what the call needs is made once.
        self._spec = _TimerSpec()
        self._value = self._spec.value
        self._arguments = (self.descriptor, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None)

    def set(self, at_ns: int | None) -> None:
        """Set it to an instant, CLOCK_MONOTONIC nanoseconds (a past one is at once), or to none."""
        self._value.seconds, self._value.nanoseconds = (0, 0) if at_ns is None else divmod(max(at_ns, 1), _NANOSECONDS)
        _checked(_settime(*self._arguments))

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self.descriptor)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
