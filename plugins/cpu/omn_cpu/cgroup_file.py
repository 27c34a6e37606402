"""One file of a cgroup, read again and again until the cgroup is removed."""

from __future__ import annotations

import errno

from omn_kernel.cgroup import CgroupPlace
from omn_kernel.polled import PolledFile

from omn_core.api import BoundTarget, MachineRefused, TargetGone


def get_place(target: BoundTarget) -> CgroupPlace:
    """Return where the target's cgroup stands. Raises TypeError for a target that is none, which no resolver makes."""
    if not isinstance(target.place, CgroupPlace):
        raise TypeError(f"{target.target} was bound to no cgroup")
    return target.place


class CgroupFile:
    """A file of a cgroup, opened once.

    Reading it once the cgroup is removed answers ENODEV (kernfs), which is the end of the target and no failure.
    """

    def __init__(self, path: str | None, cgroup: str) -> None:
        if path is None:
            raise MachineRefused(f"cgroup {cgroup!r} has no such account in the hierarchy that is asked")
        try:
            self._file = PolledFile(path)
        except OSError as error:
            name = path.rpartition("/")[2]
            raise MachineRefused(f"{name} of cgroup {cgroup!r} cannot be opened: {error.strerror}") from error

    def read(self) -> bytes:
        """Read it whole. Raises TargetGone where the cgroup is no more."""
        try:
            return self._file.read()
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.ENOENT):
                raise TargetGone from None
            raise

    def close(self) -> None:
        """Let go of it."""
        self._file.close()
