"""gpu.processes: how many processes use a device, or which they are and what each holds."""

from __future__ import annotations

from typing import Any

from omn_kernel.polling import Rows
from omn_kernel.procfs.process import find_comm

from omn_core.api import BoundTarget
from omn_gpu.asking import Answer, DeviceCollector, key_by_device
from omn_gpu.device import Device
from omn_gpu.holders import Holder, list_holders

_PARTS = ("task", "comm", "use", "pid")


class DeviceProcesses(DeviceCollector[list[Holder]]):
    """A row for each device with their number, or one for each process.

    Processes of one instant add up and those of several do not, so that a snapshot lists each process and a poll only
    where something tells them apart.
    """

    reads_at_open = True
    topic = "processes"

    def open_files(self, target: BoundTarget) -> None:
        """Find the devices."""
        is_told_apart = any(self.resolved.is_divided_by(name) for name in _PARTS)
        self._lists = self.resolved.mode == "snapshot" or is_told_apart
        super().open_files(target)

    def ask(self, device: Device) -> list[Holder]:
        """Ask who is on the device."""
        return sorted(list_holders(self.library, device).values(), key=lambda holder: holder.pid)

    def make_device_rows(self, answers: list[Answer[list[Holder]]], at_ns: int) -> Rows:
        """Return the rows. A process of another pid namespace, or one that ended, has no name here."""
        if not self._lists:
            return Rows(key_by_device(answers), {"processes": [len(answer.told) for answer in answers]})
        rows = [(answer, holder) for answer in answers for holder in answer.told]
        if not rows:
            return Rows()
        columns: dict[str, list[Any]] = {
            "processes": [1] * len(rows),
            "bytes": [holder.held_bytes for _, holder in rows],
            "use": [holder.use for _, holder in rows],
            "pid": [holder.pid for _, holder in rows],
            "comm": [find_comm(self.context.sysroot, holder.pid) for _, holder in rows],
        }
        return Rows(
            {"gpu": [answer.device.index for answer, _ in rows], "task": [holder.pid for _, holder in rows]},
            {name: column for name, column in columns.items() if any(value is not None for value in column)},
            [answer.began_ns for answer, _ in rows],
        )
