"""mem.pressure: time in which tasks waited for memory, of the machine and of a cgroup."""

from __future__ import annotations

from omn_kernel.polled import place
from omn_kernel.psi import Pressure, compute_stall, parse_pressure

from omn_core.api import Batch, BoundTarget, CollectorBase, Column, MachineRefused
from omn_mem.cgroup_files import CgroupFiles, get_place, make_cgroup_key

_FILE = "memory.pressure"


class PressureCollector(CollectorBase):
    """The stall of each interval as a share of it, from the growth of the kernel's totals, its averages beside."""

    def attach(self, target: BoundTarget) -> None:
        """Read the totals as they stand. A cgroup that is on no cgroup2 hierarchy is refused."""
        self._keys: dict[str, Column] = {}
        if target.scope == "cgroup":
            found = get_place(target)
            if found.find_unified_file(_FILE) is None or found.unified is None:
                raise MachineRefused(
                    f"cgroup {found.path!r} has no {_FILE}: pressure is kept on cgroup2 alone",
                    "name a cgroup of the cgroup2 hierarchy",
                )
            self._name, self._files = _FILE, CgroupFiles(found.unified, (_FILE,))
            self._keys = make_cgroup_key(found, self.context.names)
        else:
            self._name, self._files = "memory", CgroupFiles(place(self.context.sysroot, "/proc/pressure"), ("memory",))
        self._read_ns, self._before = self._read()

    def _read(self) -> tuple[int, dict[str, Pressure]]:
        content = self._files.read()[self._name]
        return self.context.clock(), parse_pressure(content)

    def sample(self, now_ns: int) -> Batch:
        """Return the stall since the last reading. Raises TargetGone when the cgroup was removed."""
        before = self.context.clock()
        read_ns, pressures = self._read()
        attributes: dict[str, list[float | int]] = {}
        for name, after in pressures.items():
            stall = compute_stall(self._before[name], after, read_ns - self._read_ns)
            attributes["stall_ratio" if name == "some" else "full_ratio"] = [stall.ratio]
            attributes[f"{name}_ns"] = [stall.stalled_ns]
            for seconds in (10, 60, 300):
                attributes[f"{name}_avg{seconds}"] = [getattr(after, f"avg{seconds}")]
        self._read_ns, self._before = read_ns, pressures
        return Batch.of_reading((before, read_ns), self.context.names, self._keys, attributes)

    def stop(self) -> Batch:
        """Close the file."""
        self._files.close()
        return Batch.empty()
