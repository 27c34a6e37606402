"""Which file systems are mounted where: /proc/<pid>/mountinfo, see proc(5)."""

from __future__ import annotations

import re

import attrs

from omn_kernel.polled import read_file

_OCTAL = re.compile(r"\\([0-7]{3})")


@attrs.frozen(repr=False)
class Mount:
    """One mount: the folder of its file system that stands at `point`, its type, and its super block's options."""

    root: str
    point: str
    kind: str
    options: tuple[str, ...]
    device: str = ""


def parse_mountinfo(content: bytes) -> tuple[Mount, ...]:
    """Parse mountinfo, in the order mounted. Spaces and newlines in paths are written there as octal escapes."""
    mounts = []
    for line in content.decode("utf-8", "surrogateescape").split("\n"):
        front, dash, back = line.partition(" - ")
        fields, behind = front.split(" "), back.split(" ")
        if dash and len(fields) >= 6 and len(behind) >= 3:
            mounts.append(
                Mount(_unescape(fields[3]), _unescape(fields[4]), behind[0], tuple(behind[2].split(",")), fields[2])
            )
    return tuple(mounts)


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def read_mounts(sysroot: str) -> tuple[Mount, ...]:
    """Read what this process sees mounted. Raises OSError where /proc is not there."""
    return parse_mountinfo(read_file(sysroot, "/proc/self/mountinfo"))


def find_tracefs(sysroot: str) -> str | None:
    """Find where tracefs is mounted, itself or under debugfs, None where it is not. It is never mounted from here."""
    mounts = read_mounts(sysroot)
    for mount in mounts:
        if mount.kind == "tracefs":
            return mount.point
    return next((f"{mount.point}/tracing" for mount in mounts if mount.kind == "debugfs"), None)
