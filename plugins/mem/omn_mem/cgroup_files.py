"""Files of one cgroup, polled; a cgroup that is removed meanwhile ends the request."""

from __future__ import annotations

import errno
import os

from omn_kernel.cgroup import CgroupPlace
from omn_kernel.polled import PolledFile

from omn_core.api import BoundTarget, Column, MachineRefused, Names, TargetGone

_REMOVED = frozenset({errno.ENODEV, errno.ENOENT})


class CgroupFiles:
    """Some files of a cgroup's folder. One that this kernel does not have is absent from every reading."""

    def __init__(self, folder: str, names: tuple[str, ...]) -> None:
        self._files = {name: PolledFile(f"{folder}/{name}") for name in names if os.path.exists(f"{folder}/{name}")}

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def read(self) -> dict[str, bytes]:
        """Read every file. Raises TargetGone when the cgroup was removed."""
        try:
            return {name: file.read() for name, file in self._files.items()}
        except OSError as error:
            if error.errno in _REMOVED:
                raise TargetGone from None
            raise

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            file.close()


def get_place(target: BoundTarget) -> CgroupPlace:
    """Return where the target's cgroup stands. Raises MachineRefused for a target that no binder found one for."""
    if not isinstance(target.place, CgroupPlace):
        raise MachineRefused("no cgroup was found for the target")
    return target.place


def make_cgroup_key(place: CgroupPlace, names: Names, rows: int = 1) -> dict[str, Column]:
    """Return the key column of rows about one cgroup."""
    return {"cgroup": Column.constant(place.path, rows, names)}
