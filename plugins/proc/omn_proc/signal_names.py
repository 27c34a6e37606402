"""What signals are called."""

from __future__ import annotations

import signal


def spell_signal(number: int) -> str:
    """Spell a signal as signal(7) does, one that has no name (a real-time signal) by its number: `SIG40`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
