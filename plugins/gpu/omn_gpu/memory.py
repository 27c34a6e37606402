"""gpu.mem: bytes of a device's memory in use, and what the processes of a tree hold of it."""

from __future__ import annotations

import attrs
from omn_kernel.polling import Rows

from omn_gpu.asking import Answer, DeviceCollector, key_by_device
from omn_gpu.device import Device
from omn_gpu.holders import Holder, list_holders
from omn_gpu.tree import TreeCollector


@attrs.frozen
class Memory:
    """A device's memory, bytes. `used` holds what the driver keeps for itself where it counts that."""

    used: int
    free: int
    total: int


class DeviceMemory(DeviceCollector[Memory]):
    """A row for each device, or where the machine is not divided by device one of their sums (NVML memory info)."""

    reads_at_open = True
    topic = "memory"

    def ask(self, device: Device) -> Memory:
        """Ask for the three amounts."""
        memory = self.library.call("nvmlDeviceGetMemoryInfo", device.handle)
        return Memory(memory.used, memory.free, memory.total)

    def make_device_rows(self, answers: list[Answer[Memory]], at_ns: int) -> Rows:
        """Return the rows."""
        columns = {
            "bytes": [answer.told.used for answer in answers],
            "free_bytes": [answer.told.free for answer in answers],
            "total_bytes": [answer.told.total for answer in answers],
        }
        if len(answers) > 1 and not self.resolved.is_divided_by("gpu"):
            return Rows.of_one({name: sum(column) for name, column in columns.items()})
        return Rows(key_by_device(answers), columns)


class TreeMemory(TreeCollector[dict[int, Holder]]):
    """A row for each device of what the tree holds there, or of each of its processes where `task` is asked for.

    Without a division by device one row of the sum. What the driver does not tell of one process is unknown of a sum.
    """

    reads_at_open = True
    topic = "processes"

    def ask(self, device: Device) -> dict[int, Holder]:
        """Ask who holds memory, and keep the tree's."""
        holders = list_holders(self.library, device)
        return {pid: holder for pid, holder in holders.items() if pid in self.members}

    def make_device_rows(self, answers: list[Answer[dict[int, Holder]]], at_ns: int) -> Rows:
        """Return the rows; an amount that is not told is a reading that failed."""
        if not self.can_tell(pid for answer in answers for pid in answer.told):
            return Rows()
        if self.resolved.is_divided_by("task"):
            return self._make_rows_of_processes(answers)
        sums = [self._add(answer.told, answer.device) for answer in answers]
        known = [(answer, held) for answer, held in zip(answers, sums, strict=True) if held is not None]
        if not known:
            return Rows()
        if len(answers) > 1 and not self.resolved.is_divided_by("gpu"):
            return Rows.of_one({"bytes": sum(held for _, held in known)} if len(known) == len(answers) else {})
        return Rows(key_by_device([answer for answer, _ in known]), {"bytes": [held for _, held in known]})

    def _add(self, holders: dict[int, Holder], device: Device) -> int | None:
        amounts = [holder.held_bytes for holder in holders.values()]
        if None in amounts:
            self.misses.note(f"{device} does not tell how much memory a process holds")
            return None
        return sum(amount for amount in amounts if amount is not None)

    def _make_rows_of_processes(self, answers: list[Answer[dict[int, Holder]]]) -> Rows:
        rows = [(answer, holder) for answer in answers for holder in answer.told.values()]
        return Rows(
            {"gpu": [answer.device.index for answer, _ in rows], "task": [holder.pid for _, holder in rows]},
            {"bytes": [holder.held_bytes for _, holder in rows]} if rows else {},
            [answer.began_ns for answer, _ in rows],
        )
