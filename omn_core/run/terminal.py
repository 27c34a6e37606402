"""The terminal a program was given, put back when omn ends the program instead of the program itself."""

from __future__ import annotations

import os
import signal
import termios
from typing import Any

import attrs


@attrs.frozen(repr=False)
class TerminalState:
    """A terminal's modes and its foreground process group, as they were before the program ran."""

    descriptor: int
    modes: list[Any]
    foreground: int


def find_terminal() -> TerminalState | None:
    """Return the state of the first of stdin, stdout and stderr that is this session's terminal, else None."""
    for descriptor in (0, 1, 2):
        try:
            return TerminalState(descriptor, termios.tcgetattr(descriptor), os.tcgetpgrp(descriptor))
        except (termios.error, OSError):
            continue
    return None


def restore_terminal(state: TerminalState) -> None:
    """Put the modes and the foreground group back, where they are omn's to set.

    Only a run in the foreground does: a background one would take the terminal from whoever has it. A terminal that
    is gone is left alone.
    """
    if state.foreground != os.getpgrp():
        return
    # Without this the first of the two calls would stop omn, whose group is in the background when the program had
    # made another one the foreground group.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(state.descriptor, state.foreground)
        termios.tcsetattr(state.descriptor, termios.TCSADRAIN, state.modes)
    except (termios.error, OSError):
        return
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
