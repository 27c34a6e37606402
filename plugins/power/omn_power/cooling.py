"""power.throttle by a program on cdev_update: how often and how long the kernel slowed processors for their heat."""

from __future__ import annotations

from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.counters import Account, Misses

from omn_core.api import Batch, BoundTarget, Losses, MachineRefused
from omn_power.cooling_devices import CoolingDevice, iter_cooling
from omn_power.programs.cooling import CoolingStates
from omn_power.sensors import THERMAL


class Cooling(ProgramCollector):
    """One row of the machine: settings of all devices that slow processors.

    One that was on already as the program came has its time from there, and is no event of the window.
    """

    def open_maps(self) -> None:
        """Open the sums."""
        self._states = self.hold(CoolingStates())
        self._misses = Misses()
        self._account = Account("the cooling devices", self._misses)

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program, every device in its state. Raises MachineRefused where none slows a processor."""
        devices = list(iter_cooling("/"))
        if not devices:
            raise MachineRefused(f"no cooling device of {THERMAL} slows a processor")
        # Of a record that tells the kind alone, devices of one kind are one.
        self._keys = {self._spell(device) for device in devices}
        for device in devices:
            if device.state:
                self._states.devices.update(self._spell(device), (device.state, self.context.clock(), 0, 0))
        self.count_lost(self._states.lost, "settings were of cooling devices that found no room")
        self.load_event("cdev_update", self._states.write)

    def _spell(self, device: CoolingDevice) -> tuple[bytes, int]:
        return (device.kind.encode(), 0) if self.reads_records else (b"", device.number)

    def attach(self, target: BoundTarget) -> None:
        """Attach, and read the baseline."""
        super().attach(target)
        self._account.advance(self._read(), self.context.clock())

    def sample(self, now_ns: int) -> Batch:
        """Read what was added up since the last time."""
        before = self.context.clock()
        reading, after = self._read(), self.context.clock()
        growth = self._account.advance(reading, after)
        if growth is None:
            return Batch.empty()
        columns = {name: [value] for name, value in growth.by.items()}
        return Batch.of_reading((before, after), self.context.names, {}, columns)

    def _read(self) -> dict[str, int]:
        entries = self._states.devices.read()
        ours = [value for key, value in zip(entries.keys, entries.values, strict=True) if key.item() in self._keys]
        return {name: sum(int(value[name]) for value in ours) for name in ("throttles", "throttled_ns")}

    def losses(self) -> Losses:
        """Return the settings that found no room, and the runs that the kernel passed over."""
        return self.add_missed(self._misses.to_losses())
