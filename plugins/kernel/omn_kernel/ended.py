"""How a program ended that omn launched, before anybody waits for it."""

from __future__ import annotations

import os
import signal


def find_signal(pid: int) -> str | None:
    """Find the signal that killed a child of omn that is not reaped yet, None where none did."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return None
    if found is None or found.si_code == os.CLD_EXITED:
        return None
    return signal.Signals(found.si_status).name
