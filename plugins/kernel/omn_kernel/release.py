"""The running kernel's release: for what can be asked of it no other way."""

from __future__ import annotations

import re

from omn_kernel.polled import read_file

Release = tuple[int, int, int]


def read_release(sysroot: str) -> str:
    """Read what the kernel calls itself, from /proc/sys/kernel/osrelease. Raises OSError where that is closed."""
    return read_file(sysroot, "/proc/sys/kernel/osrelease").decode("utf-8", "replace").strip()


def parse_release(text: str) -> Release | None:
    """Parse three numbers, so that 6.1 and 6.1.0 compare equal; None for a text that starts with no number."""
    found = re.match(r"\d+(\.\d+)*", text)
    if found is None:
        return None
    first, second, third, *_ = [*map(int, found[0].split(".")), 0, 0]
    return first, second, third
