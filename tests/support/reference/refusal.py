"""Why a pair has no figures to compare: the machine's reason, or a failure."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from reference.model import Pair

_REFUSALS = re.compile(
    "permission denied|operation not permitted|not supported|requires? root|must be root|as the root user|no permission"
    "|access denied|is limited",
    re.IGNORECASE,
)


class CannotRunError(Exception):
    """The machine lacks what a pair needs: its reason."""


class PairFailedError(Exception):
    """There is a figure missing, and not for this machine's reason."""


def check_requirements(pair: Pair) -> None:
    """Raise CannotRunError, with the machine's reason, for the first thing a pair needs that is not here."""
    program = pair.tool.command[0]
    if shutil.which(program) is None:
        raise CannotRunError(f"{program} (package {pair.tool.package}) is not installed here")
    for need in pair.requires:
        name = need.removeprefix("program:")
        if need == "root" and os.geteuid() != 0:
            raise CannotRunError("only root can run it")
        if need.startswith("program:") and shutil.which(name) is None:
            raise CannotRunError(f"{name} is not installed here")
        if need.startswith("/") and not Path(need).exists():
            raise CannotRunError(f"this machine has no {need}")


def find_refusal(said: str) -> str | None:
    """Return the line in which a tool says that this machine or user may not, None where it says no such thing."""
    return next((line.strip() for line in said.splitlines() if _REFUSALS.search(line)), None)
