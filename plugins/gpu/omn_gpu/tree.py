"""Collectors of what a tree of processes does on NVIDIA's devices, the tree walked at each reading."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Iterable
from typing import TypeVar

from omn_kernel.polled import place
from omn_kernel.procfs.tree import ProcessTree

from omn_core.api import BoundTarget, TargetGone
from omn_gpu.asking import Answer, DeviceCollector

Told = TypeVar("Told")

_FIRST_NAMESPACE = "pid:[4026531836]"
"""The machine's first pid namespace, whose inode the kernel fixes (PROC_PID_INIT_INO)."""


class TreeCollector(DeviceCollector[Told], ABC):
    """A collector that asks each device about the processes of its target and all that descend from them."""

    def open_files(self, target: BoundTarget) -> None:
        """Find the tree, and the devices."""
        self._tree = self.hold(ProcessTree(self.context.sysroot, target.processes, target.find_orphans))
        self.members = self._tree.find_members()
        self._is_numbered_alike = self._is_in_first_namespace()
        super().open_files(target)

    def read(self) -> list[Answer[Told]]:
        """Walk the tree, then ask every device. Raises TargetGone when no process of it is left."""
        self.members = self._tree.find_members()
        if not self.members:
            raise TargetGone
        return super().read()

    def can_tell(self, pids: Iterable[int]) -> bool:
        """Tell whether a target that is not among the processes on a device does nothing there; where not, count it.

        In a pid namespace of its own omn cannot know it before the driver named one of the target's: some drivers name
        processes by their numbers in the machine's first namespace.
        """
        self._is_numbered_alike = self._is_numbered_alike or any(pid in self.members for pid in pids)
        if not self._is_numbered_alike:
            self.misses.note(
                "omn is not in the machine's first pid namespace, and the driver named none of the target's processes: "
                "whether it knows them by other numbers cannot be told"
            )
        return self._is_numbered_alike

    def _is_in_first_namespace(self) -> bool:
        try:
            return os.readlink(place(self.context.sysroot, "/proc/self/ns/pid")) == _FIRST_NAMESPACE
        except OSError:
            return False
