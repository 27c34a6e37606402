"""SIGINT, SIGTERM and SIGHUP during a run: the first ends the window, a second aborts."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AT_ONCE_NS = 200_000_000
"""timeout(1) signals its child, then the group that the child is in: so soon after the first it is no second signal."""


class Aborted(BaseException):
    """Raised out of whatever is running: by a second signal, or by the first while no window is open."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Interrupts:
    """The signals that end a run, watched from `__enter__` to `__exit__`.

    `descriptor` becomes readable with each of them. `first` is the name of the one that ended the window. Only
    Python's main thread may watch signals: elsewhere nothing is watched and nothing changes. `ignored_before` are the
    signals that were ignored when the run began, which a launched program must find ignored still. `aborted` is the
    name of the one that aborted. Without `aborts_early` one that comes before the window opened ends it as it opens.
    """

    def __init__(self, *, aborts_early: bool = True) -> None:
        self._aborts_early = aborts_early
        self.first: str | None = None
        self.aborted: str | None = None
        self.descriptor, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.ignored_before: frozenset[int] = frozenset()
        self._is_open = False
        self._is_over = False
        self._noted: tuple[int, int] | None = None
        self._previous: dict[int, Any] = {}
        self._previous_wakeup = -1

    def begin(self) -> None:
        """Watch over one run more: until its window opens a signal aborts it."""
        self._is_open = self._is_over = False

    def open_window(self) -> None:
        """From here on the first signal ends the window in good order; before, it aborts."""
        self._is_open = True

    def drain(self) -> None:
        """Empty the descriptor: any signal that Python handles writes to it, not these alone."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.descriptor, 4096)

    def stop_aborting(self) -> None:
        """From here on a signal is kept in `first` and changes nothing else: what is under way is the cleaning up."""
        self._is_over = True

    def __enter__(self) -> Interrupts:
        self.ignored_before = frozenset(
            number for number in (*_WATCHED, signal.SIGCHLD) if signal.getsignal(number) is signal.SIG_IGN
        )
        if threading.current_thread() is threading.main_thread():
            self._previous_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
            for number in _WATCHED:
                if number == signal.SIGHUP and number in self.ignored_before:
                    continue  # `nohup omn` outlives its terminal
                self._previous[number] = signal.signal(number, self._note)
            if signal.SIGCHLD in self.ignored_before:
                # While it is ignored the kernel reaps every child by itself, and no exit status can be read.
                self._previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._previous.items():
            # None is a handler that Python did not set and cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._previous:
            signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self.descriptor)
        os.close(self._write)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        name, now_ns = signal.Signals(number).name, time.monotonic_ns()
        is_echo = self._noted is not None and self._noted[0] == number and now_ns - self._noted[1] < _AT_ONCE_NS
        self._noted = (number, now_ns)
        if is_echo:
            return
        if self._is_over:
            self.first = self.first or name
            return
        if self.first is not None or (self._aborts_early and not self._is_open):
            self.aborted = name
            raise Aborted(name)
        self.first = name
