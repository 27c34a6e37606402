"""The collector of pressure sources: time in which tasks waited for a resource, of the machine and of a cgroup."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable

from omn_core.api import BoundTarget
from omn_kernel.cgroup import UNIFIED
from omn_kernel.cgroup_files import CgroupFiles, get_place
from omn_kernel.counters import Account
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.psi import compute_share, parse_pressure

_SHARES = {"some": "stall_ratio", "full": "full_ratio"}
"""Each line of a pressure file, and what its share of an interval is called."""


class PressureCollector(PolledCollector[bytes], ABC):
    """The waiting of each interval as a share of it, from the growth of the kernel's totals, its averages beside.

    A family names its `resource` (memory, cpu, io), and in `machine_lines` the lines of the machine's own file that
    mean something. `some` is time in which at least one task waited, `full` in which all that were not idle did.
    """

    resource: str
    machine_lines: tuple[str, ...] = ("some", "full")

    def open_files(self, target: BoundTarget) -> None:
        """Open /proc/pressure/RESOURCE, or RESOURCE.pressure of a cgroup, which is there on cgroup2 alone."""
        name = f"{self.resource}.pressure"
        if target.scope == "cgroup":
            place = get_place(target)
            without = "pressure is kept on cgroup2 alone"
            files = self.hold(CgroupFiles(place, UNIFIED, (name,), without=without))
            self._read: Callable[[], bytes] = lambda: files.read()[name]
            self._keys, self._lines, whose = {"cgroup": [place.path]}, tuple(_SHARES), f"cgroup {place.path}"
        else:
            self._read = self.open_file(f"/proc/pressure/{self.resource}").read
            self._keys, self._lines, whose = {}, self.machine_lines, "the machine"
        self._account = Account(f"{name} of {whose}", self.misses)

    def read(self) -> bytes:
        """Read the file. Raises TargetGone when the cgroup was removed."""
        return self._read()

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the waiting since the last reading; none where a total stepped back."""
        lines = {name: line for name, line in parse_pressure(content).items() if name in self._lines}
        growth = self._account.advance({name: line.total_ns for name, line in lines.items()}, at_ns)
        if growth is None:
            return Rows()
        attributes: dict[str, int | float | None] = {"interval_ns": growth.length_ns}
        for name, line in lines.items():
            waited_ns = growth.by.get(name)
            if waited_ns is not None:
                attributes[_SHARES[name]] = compute_share(waited_ns, growth.length_ns)
                attributes[f"{name}_ns"] = waited_ns
            for seconds, average in ((10, line.avg10), (60, line.avg60), (300, line.avg300)):
                attributes[f"{name}_avg{seconds}"] = average
        return Rows.of_one(attributes, self._keys)
