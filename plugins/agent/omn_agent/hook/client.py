"""Which client hooks run: the compiled one, or the slow one where no compiler was when omn-agent was installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("omn-agent-hook")
EXTENSION = Path(__file__).with_name("pi.mjs")
"""What Pi loads, in its own JavaScript."""

_SLOW = Path(__file__).with_name("slow.py")


def is_compiled() -> bool:
    """Return whether the compiled client is there."""
    return os.access(PROGRAM, os.X_OK)


def get_client() -> tuple[str, ...]:
    """Return the program that a hook runs, and its first arguments."""
    return (str(PROGRAM),) if is_compiled() else (sys.executable, "-I", "-S", str(_SLOW))
