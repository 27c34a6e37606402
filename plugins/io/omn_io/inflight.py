"""io.inflight: requests that devices have been given and have not completed, by both of the kernel's accounts."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from omn_kernel.block import find_folder
from omn_kernel.polled import PolledFile, place
from omn_kernel.polling import Rows
from omn_kernel.procfs.disks import Disk, parse_inflight

from omn_core.api import BoundTarget
from omn_io.devices import DeviceCollector


@attrs.frozen
class Waiting:
    """A device's requests in flight: the column of its line, and its own file's two, None where that is not read."""

    disk: Disk
    reads: int | None
    writes: int | None

    def to_attributes(self) -> dict[str, int | None]:
        """Return the attributes of its row: each account may fall short, so that the larger one is the figure."""
        by_file = None if self.reads is None or self.writes is None else self.reads + self.writes
        return {
            "in_flight": max(self.disk.in_flight, by_file or 0),
            "diskstats_in_flight": self.disk.in_flight,
            "sysfs_in_flight": by_file,
            "read_in_flight": self.reads,
            "write_in_flight": self.writes,
        }


def compute_sum(rows: list[dict[str, int | None]]) -> dict[str, int | None]:
    """Compute the sum of several devices' rows; what is unknown of one is unknown of the sum."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        name: None if None in values else sum(value for value in values if value is not None)
        for name, values in columns.items()
    }


class InFlight(DeviceCollector[dict[str, Waiting]]):
    """A row for each device at each reading, or one of their sums where the machine is not divided by device."""

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the file; those of single devices are opened when they are first read."""
        super().open_files(target)
        self._files: dict[str, PolledFile] = {}

    def read(self) -> dict[str, Waiting]:
        """Read the devices' lines and right after them their own files."""
        disks = {name: disk for name, disk in self.read_lines().items() if self.devices.has_row(disk)}
        return {name: Waiting(disk, *self._read_pair(name)) for name, disk in disks.items()}

    def make_rows(self, content: Mapping[str, Waiting], at_ns: int) -> Rows:
        """Return the rows."""
        rows = [waiting.to_attributes() for waiting in content.values()]
        if not rows:
            return Rows()
        if not self.devices.is_divided:
            return Rows.of_one(compute_sum(rows))
        return Rows({"dev": list(content)}, {name: [row[name] for row in rows] for name in rows[0]})

    def _read_pair(self, name: str) -> tuple[int | None, int | None]:
        """Read a device's own file; None twice where it is gone, or this kernel has none."""
        try:
            if name not in self._files:
                path = place(self.context.sysroot, f"{find_folder(name)}/inflight")
                self._files[name] = self.hold(PolledFile(path, size=64))
            return parse_inflight(self._files[name].read())
        except OSError:
            # A device of this name that comes later has a file of its own.
            self._files.pop(name, None)
            return None, None
