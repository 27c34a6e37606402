"""States that the kernel sets its cooling devices to: how often each left 0, and how long it was out of it.

Of a raw tracepoint a device is told by its number, of a classic one by its kind alone.
"""

from __future__ import annotations

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import NO_EXIST, Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9

DEVICE = np.dtype([("kind", "S24"), ("number", "u8")])
"""A device: its number or its kind, whichever is told, and the other empty."""
COOLING = np.dtype([("state", "u8"), ("began_ns", "u8"), ("throttles", "u8"), ("throttled_ns", "u8")])
_MOST_DEVICES = 1024


class CoolingStates:
    """Writes the program. `devices` are the sums of each; `lost` counts settings of devices that found no room.

    The kernel sets a device under its lock, so that nothing is lost between two settings.
    """

    def __init__(self) -> None:
        self.devices = Map(MapType.HASH, "cooling", DEVICE, COOLING, _MOST_DEVICES)
        self.lost = LostCounter()

    def close(self) -> None:
        """Let go of the maps."""
        self.devices.close()
        self.lost.close()

    def write(self, program: TaskAssembly) -> None:
        """Write cdev_update(device, state)."""
        program.move(R6, R1)
        program.read_argument(R7, R6, 1)
        self._find_device(program)
        program.jump_if(R0, "==", 0, "done")
        program.move(R9, R0)
        device = Record(R9, COOLING)
        read_clock(program, R8)
        program.get(R1, device, "state")
        program.set(device, "state", R7)
        program.jump_if(R1, "!=", 0, "on")
        program.jump_if(R7, "==", 0, "done")
        program.set(device, "began_ns", R8)
        program.move(R1, 1)
        program.add_to(device, "throttles", R1)
        program.jump("done")
        program.label("on")
        program.jump_if(R7, "!=", 0, "done")
        program.get(R1, device, "began_ns")
        program.compute(R8, "-=", R1)
        program.add_to(device, "throttled_ns", R8)
        program.label("done")
        program.leave(0)

    def _find_device(self, program: TaskAssembly) -> None:
        """Emit what sets R0 to the device's sums, made where it has none yet: it is told of for the first time then."""
        device, fresh = program.reserve(DEVICE), program.reserve(COOLING)
        program.clear(device)
        if isinstance(program, KernelAssembly):
            program.read_argument(R8, R6, 0)
            program.read_field(R1, R8, "thermal_cooling_device", "id")
            program.set(device, "number", R1)
        elif isinstance(program, RecordedAssembly):
            program.copy_text(device, "kind", R6, program.fields["type"])
        program.look_up(self.devices, device)
        with program.when(R0, "==", 0):
            program.clear(fresh)
            program.update(self.devices, device, fresh, NO_EXIST)
            program.look_up(self.devices, device)
            with program.when(R0, "==", 0):
                self.lost.emit_count(program)
                program.move(R0, 0)
