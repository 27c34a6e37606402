"""The line that a terminal shows while a run goes on, written by a thread of its own and gone before the answer."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

from omn_core.format.scale import render_count
from omn_core.model.request import Session
from omn_core.run.events import Moment, RunEvent

FIRST_AFTER_S = 1.0
"""A run that is over sooner shows nothing."""

EVERY_S = 0.5

_FAINT = ("\x1b[2m", "\x1b[22m")


def find_progress(session: Session) -> Progress | None:
    """Return the progress of a session's runs, None where nobody could read it or where it would be in the way.

    It is for a terminal on standard error alone, not a dumb one, of which omn is in the foreground. Where the launched
    program writes to a terminal too, its output is what the terminal is for.
    """
    if not os.isatty(2) or os.environ.get("TERM", "dumb") == "dumb":
        return None
    has_output = session.program_stdout is not None or not os.isatty(1)
    if session.program is not None and (session.program_stderr is None or not has_output):
        return None
    return Progress(session, 2, colour=not os.environ.get("NO_COLOR"))


class Progress:
    """One line about the run that is under way: which of several, elapsed, of how long, events, losses.

    Give its `observe` to the run, and leave the `with` block before anything else is written to the terminal. The
    measuring thread only adds to two numbers; a terminal that takes nothing holds up the writing thread alone.
    """

    def __init__(
        self, session: Session, descriptor: int, *, colour: bool, first_after_s: float = FIRST_AFTER_S
    ) -> None:
        self._session = session
        self._descriptor = descriptor
        self._colour = colour
        self._first_after_s = first_after_s
        self._run = 0
        self._events = 0
        self._lost = 0
        self._opened_ns = 0
        self._shown = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop()
        self._clear()

    def observe(self, event: RunEvent) -> None:
        """Take note of what a run says of itself."""
        if event.moment is Moment.TICK:
            self._events += sum(len(batch) for _, batch in event.batches)
            self._lost = event.lost
        elif event.moment is Moment.ATTACHED:
            # Not before: a fork of a process with two threads gets one of them, and the other's locks.
            self._run += 1
            self._events = self._lost = 0
            self._opened_ns = event.ts_ns
            self._end.clear()
            self._thread = threading.Thread(target=self._write, name="progress", daemon=True)
            self._thread.start()
        elif event.moment is Moment.CLOSED:
            self._stop()

    def render(self, now_ns: int) -> str:
        """Return the line."""
        elapsed_s = (now_ns - self._opened_ns) / 1e9
        duration_ns = self._session.duration_ns
        which = "" if self._session.repeat is None else f"run {self._run} of {self._session.repeat}, "
        whole = "" if duration_ns is None else f" of {duration_ns / 1e9:g} s"
        lost = f", {render_count(self._lost)} lost" if self._lost else ""
        return f"omn: {which}{elapsed_s:.0f} s{whole}, {render_count(self._events)} events{lost}"

    def _write(self) -> None:
        # The run's signals are the main thread's.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        wait_s = self._first_after_s
        while not self._end.wait(wait_s):
            wait_s = EVERY_S
            self._show(self.render(time.monotonic_ns()))

    def _show(self, line: str) -> None:
        if _is_in_background(self._descriptor):
            return
        with contextlib.suppress(OSError):
            room = (os.get_terminal_size(self._descriptor).columns or 80) - 1
            text = line[:room].ljust(self._shown)
            self._shown = len(line[:room])
            before, after = _FAINT if self._colour else ("", "")
            os.write(self._descriptor, f"\r{before}{text}{after}".encode())

    def _stop(self) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _clear(self) -> None:
        if self._shown:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, f"\r{' ' * self._shown}\r".encode())
            self._shown = 0


def _is_in_background(descriptor: int) -> bool:
    """Tell whether another job has the terminal; of a terminal that controls no session nobody is in the background."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False
