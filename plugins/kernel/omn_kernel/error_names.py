"""Names of the errors that system calls return."""

from __future__ import annotations

import errno

_RESTARTS = {512: "ERESTARTSYS", 513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 516: "ERESTART_RESTARTBLOCK"}
"""What a call returns inside the kernel where a signal ends it (<linux/errno.h>): it is made again, or is EINTR."""


def name_error(number: int) -> str:
    """Name an error by its number: `ENOENT`; one that nobody here knows is its number."""
    return errno.errorcode.get(number) or _RESTARTS.get(number, str(number))
