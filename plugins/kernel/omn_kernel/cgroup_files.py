"""Files of one cgroup, polled; a cgroup that is removed meanwhile ends the request."""

from __future__ import annotations

import errno
import os
from abc import ABC
from collections.abc import Mapping, Sequence

from omn_core.api import BoundTarget, MachineRefused, TargetGone
from omn_kernel.cgroup import CgroupPlace
from omn_kernel.polled import PolledFile
from omn_kernel.polling import PolledCollector

_REMOVED = frozenset({errno.ENODEV, errno.ENOENT})
"""What the kernel answers for a file of a cgroup that is gone."""

NO_ACCOUNT = "it has no such account in the hierarchy that is asked"


def get_place(target: BoundTarget) -> CgroupPlace:
    """Return where the target's cgroup stands. Raises MachineRefused for a target that no binder found one for."""
    if not isinstance(target.place, CgroupPlace):
        raise MachineRefused(f"no cgroup was found for {target.target}")
    return target.place


def _remedy(place: CgroupPlace, folder: str | None) -> str:
    """Return what mends a missing account."""
    if folder is not None:
        return "name a cgroup below the root, one for which the controller that keeps this account is on"
    return f"it stands in {', '.join(place.hierarchies)} alone: name a cgroup of the hierarchy that keeps this account"


class CgroupFiles:
    """Some files of a cgroup in one hierarchy: `unified`, or a v1 controller.

    The first is the account itself: where it cannot be opened, MachineRefused says so with `without`, a clause on what
    that means. A further one that this kernel does not have is absent from every reading.
    """

    def __init__(self, place: CgroupPlace, hierarchy: str, names: Sequence[str], *, without: str = NO_ACCOUNT) -> None:
        folder = place.find_folder(hierarchy)
        if folder is None or not os.path.exists(f"{folder}/{names[0]}"):
            raise MachineRefused(f"cgroup {place.path!r} has no {names[0]}: {without}", _remedy(place, folder))
        self._files: dict[str, PolledFile] = {}
        for name in names:
            if os.path.exists(f"{folder}/{name}"):
                self._files[name] = self._open(place.path, f"{folder}/{name}")

    @staticmethod
    def _open(cgroup: str, path: str) -> PolledFile:
        try:
            return PolledFile(path)
        except OSError as error:
            name = path.rpartition("/")[2]
            raise MachineRefused(f"{name} of cgroup {cgroup!r} cannot be opened: {error.strerror}") from error

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


class CgroupCollector(PolledCollector[Mapping[str, bytes]], ABC):
    """A collector of a cgroup's files: a subclass says which, in which hierarchy, and makes rows of their bytes.

    `files` names the account first; `without` says what its absence means.
    """

    hierarchy: str
    files: tuple[str, ...]
    without: str = NO_ACCOUNT

    def open_files(self, target: BoundTarget) -> None:
        """Open the files, and make the key that every row carries."""
        self.place = get_place(target)
        self.keys = {"cgroup": [self.place.path]}
        self._files = self.hold(CgroupFiles(self.place, self.hierarchy, self.files, without=self.without))

    def read(self) -> dict[str, bytes]:
        """Read the files that there are. Raises TargetGone when the cgroup was removed."""
        return self._files.read()
