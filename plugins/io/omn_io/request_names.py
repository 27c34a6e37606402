"""What the numbers in a block request stand for: its device, its operation."""

from __future__ import annotations

from collections.abc import Mapping

from omn_kernel.block import BlockDevice, list_block_devices, read_block_device
from omn_kernel.btf.fields import FieldMissing, iter_enumerators
from omn_kernel.btf.types import Btf

from omn_core.api import BoundTarget, MachineRefused, RequestError

_MINOR_BITS = 20
_ENUMERATIONS = ("req_op", "req_opf")
"""The operations' enumeration: Linux 6.0 renamed it."""
_PREFIX = "REQ_OP_"


def compute_device_number(number: str) -> int:
    """Compute a device's number as the kernel keeps it (MKDEV of <linux/kdev_t.h>) of `major:minor`."""
    major, minor = number.split(":")
    return int(major) << _MINOR_BITS | int(minor)


def find_device(target: BoundTarget) -> int | None:
    """Find the number of the device that a target names, None where it names none.

    A request is its whole device's: which partition it fell into is not kept with all of them. Raises RequestError for
    a partition, and for a device whose driver has no requests made.
    """
    if not isinstance(target.place, BlockDevice):
        return None
    if target.place.whole is not None:
        raise RequestError(
            f"{target.place.name} is a partition, and requests are made to whole devices",
            f"ask --dev {target.place.whole}",
        )
    if not target.place.has_requests:
        raise RequestError(
            f"{target.place.name} makes no requests: its driver takes what it is asked as it comes",
            "its counters tell what it moved: ask io.bytes of no task",
        )
    return compute_device_number(target.place.number)


class DeviceNames:
    """The names of the whole devices that there are, by their numbers as the kernel keeps them."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._below: dict[int, tuple[str, ...]] = {}
        self._counted: dict[int, str] = {}

    def look(self) -> None:
        """Read which devices there are, and remember those that go."""
        for name in list_block_devices("/"):
            try:
                device = read_block_device("/", name)
            except OSError:
                continue
            number = compute_device_number(device.number)
            self._names[number] = name
            self._below[number] = tuple(device.stands_on)
            if device.whole is None and device.has_requests:
                self._counted[number] = name

    def find(self, number: int) -> str | None:
        """Find the name of a device; one that nobody saw is spelled by its number. A queue without a disk has none."""
        if not number:
            return None
        return self._names.get(number, f"{number >> _MINOR_BITS}:{number & ((1 << _MINOR_BITS) - 1)}")

    @property
    def with_requests(self) -> Mapping[int, str]:
        """The names of those that requests are made to, by number."""
        return self._counted

    def find_below(self, number: int) -> tuple[str, ...]:
        """Find what a device stands on, other devices or a file; nothing for one that nobody saw."""
        return self._below.get(number, ())


RECORDED_OPERATIONS = {
    ord(letter): name
    for letter, name in {"R": "read", "W": "write", "D": "discard", "E": "secure-erase", "F": "flush"}.items()
}
"""The operations that a record tells apart, by the letter (blk_fill_rwbs). One that writes is odd here too."""


def read_operations(types: Btf) -> Mapping[int, str]:
    """Return the operations of requests on this kernel, by number: `read`, `write`, `flush`, `write-zeroes`.

    Raises MachineRefused where its types do not tell them.
    """
    for enumeration in _ENUMERATIONS:
        try:
            found = list(iter_enumerators(types, enumeration))
        except FieldMissing:
            continue
        return {
            value: name.removeprefix(_PREFIX).lower().replace("_", "-")
            for name, value in found
            if name != "REQ_OP_LAST"
        }
    raise MachineRefused("the kernel's types do not tell the operations of block requests (enum req_op)")
