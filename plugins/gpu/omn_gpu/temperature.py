"""gpu.temp: how warm a device is, degrees Celsius."""

from __future__ import annotations

from omn_kernel.polling import Rows

from omn_gpu.asking import Answer, DeviceCollector, key_by_device
from omn_gpu.device import Device
from omn_gpu.nvml import NvmlError

_GPU = 0  # NVML_TEMPERATURE_GPU


class DeviceTemperature(DeviceCollector[int]):
    """A row for each device, whole degrees of the sensor on its die."""

    reads_at_open = True
    topic = "temperature"

    def ask(self, device: Device) -> int:
        """Ask by the call that drivers have from 560 on, or by the one before it."""
        try:
            return int(self.library.call("nvmlDeviceGetTemperatureV", device.handle, _GPU))
        except NvmlError as error:
            if not error.is_unsupported:
                raise
        return int(self.library.call("nvmlDeviceGetTemperature", device.handle, _GPU))

    def make_device_rows(self, answers: list[Answer[int]], at_ns: int) -> Rows:
        """Return the rows."""
        return Rows(key_by_device(answers), {"celsius": [answer.told for answer in answers]})
