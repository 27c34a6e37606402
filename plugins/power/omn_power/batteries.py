"""power.battery: what each battery gives or takes at the instant of a reading, and what is left in it."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.polled import PolledFile
from omn_kernel.polling import PolledCollector, Rows

from omn_core.api import BoundTarget, MachineRefused, TargetGone
from omn_power.supplies import SUPPLIES, compute_battery, list_batteries, parse_supply


class Batteries(PolledCollector[Mapping[str, bytes]]):
    """A row for each battery. One that is taken out, or is no more, has none from there, and that is said."""

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Open each battery's properties. Raises MachineRefused where the machine has no battery."""
        self._files: dict[str, PolledFile] = {
            name: self.open_file(f"{SUPPLIES}/{name}/uevent") for name in list_batteries(self.context.sysroot)
        }
        if not self._files:
            raise MachineRefused(f"no battery is among the supplies of {SUPPLIES}")
        self._facts: dict[str, None] = {}

    def read(self) -> dict[str, bytes]:
        """Read each battery's properties. Raises TargetGone when none is left."""
        reading: dict[str, bytes] = {}
        for name, file in list(self._files.items()):
            try:
                reading[name] = file.read()
            except OSError:
                self._facts[f"the battery {name} went away in the window"] = None
                del self._files[name]
        if not reading:
            raise TargetGone
        return reading

    def make_rows(self, content: Mapping[str, bytes], at_ns: int) -> Rows:
        """Return the rows, of the batteries that are in their bay."""
        supplies = {name: parse_supply(properties) for name, properties in content.items()}
        absent = [name for name, properties in supplies.items() if properties.get("PRESENT") == "0"]
        for name in absent:
            self._facts[f"the bay of the battery {name} was empty at a reading"] = None
        rows = {name: compute_battery(supply) for name, supply in supplies.items() if name not in absent}
        return Rows.of_each(list(rows.values()), {"power.supply": list(rows)})

    def facts(self) -> tuple[str, ...]:
        """Say which batteries went."""
        return tuple(self._facts)
