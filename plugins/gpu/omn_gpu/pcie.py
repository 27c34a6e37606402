"""gpu.pcie: what a device sends and receives over its bus, by the driver's samples of 20 ms each."""

from __future__ import annotations

import attrs
from omn_kernel.polling import Rows

from omn_gpu.asking import Answer, DeviceCollector, key_by_device
from omn_gpu.device import Device

_SENT, _RECEIVED = 0, 1  # NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES
_BYTES_PER_KB = 1000


@attrs.frozen
class Throughput:
    """Bytes a second in each direction, as the device sees them."""

    tx: int
    rx: int


class DeviceThroughput(DeviceCollector[Throughput]):
    """A row for each device, or for each direction of each where `dir` is asked for.

    Each direction is a call that the driver holds for the 20 ms that it samples.
    """

    reads_at_open = True
    topic = "bus throughput"

    def ask(self, device: Device) -> Throughput:
        """Ask for both directions, one after the other."""
        sent, received = (
            self.library.call("nvmlDeviceGetPcieThroughput", device.handle, counter) * _BYTES_PER_KB
            for counter in (_SENT, _RECEIVED)
        )
        return Throughput(sent, received)

    def make_device_rows(self, answers: list[Answer[Throughput]], at_ns: int) -> Rows:
        """Return the rows."""
        if self.resolved.is_divided_by("dir"):
            parts = [(answer, way, getattr(answer.told, way)) for answer in answers for way in ("rx", "tx")]
            return Rows(
                {"gpu": [answer.device.index for answer, _, _ in parts], "dir": [way for _, way, _ in parts]},
                {"throughput": [amount for _, _, amount in parts]},
                [answer.began_ns for answer, _, _ in parts],
            )
        return Rows(
            key_by_device(answers),
            {
                "throughput": [answer.told.rx + answer.told.tx for answer in answers],
                "rx_throughput": [answer.told.rx for answer in answers],
                "tx_throughput": [answer.told.tx for answer in answers],
            },
        )
