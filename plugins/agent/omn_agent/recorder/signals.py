"""Signals of a recorder, as a descriptor that it waits for."""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType
from typing import Any


class Wakeup:
    """Signals as a descriptor. Interrupts from the keyboard are the harness's own business, and pass by."""

    def __init__(self) -> None:
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._reading.setblocking(False)
        self._before: dict[int, Any] = {}
        self._is_stopped = False

    def __enter__(self) -> Wakeup:
        self._wakeup = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGQUIT):
            self._before[number] = signal.signal(number, _pass)
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reading.close()
        self._writing.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable once a signal arrived."""
        return self._reading.fileno()

    def is_stopped(self) -> bool:
        """Return whether a signal said to stop, and wait for the next."""
        with contextlib.suppress(BlockingIOError):
            self._reading.recv(4096)
        return self._is_stopped

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopped = True


def _pass(number: int, frame: FrameType | None) -> None:
    """Let a signal wake the recorder up and nothing more."""
