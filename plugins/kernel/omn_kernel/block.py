"""Block devices as sysfs has them: names, numbers, partitions, what stands on what (Documentation/ABI, sysfs-block)."""

from __future__ import annotations

import os
import stat

import attrs

from omn_core.api import MachineRefused
from omn_kernel.polled import place, read_file

_CLASS = "/sys/class/block"
_NUMBERS = "/sys/dev/block"
_NAMED = 12

_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a character device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


@attrs.frozen
class BlockDevice:
    """A block device: its name, as /proc/diskstats spells it, and `major:minor`.

    `whole` is the device that a partition is a part of, None for a whole one; `stands_on` the devices whose requests
    carry this one's (the members of md and dm), or `a file` for a loop device. `is_hidden` says that the kernel keeps
    it from users (a path of a multipath disk), `is_counted` that its requests are accounted at all, `has_requests` that
    there are any: some drivers (zram, md, most of dm) take what they are asked as it comes.
    """

    name: str
    number: str
    whole: str | None = None
    stands_on: tuple[str, ...] = ()
    is_hidden: bool = False
    is_counted: bool = True
    has_requests: bool = True


def find_folder(name: str) -> str:
    """Return the folder of a block device in sysfs, where a slash in a name is written as an exclamation mark."""
    return f"{_CLASS}/{name.replace('/', '!')}"


def has_block_device(sysroot: str, name: str) -> bool:
    """Tell whether the machine has a block device of a name at this moment."""
    return os.path.exists(place(sysroot, f"{find_folder(name)}/dev"))


def list_block_devices(sysroot: str) -> list[str]:
    """List the name of every block device, partitions too. Empty where sysfs has no such class."""
    try:
        return sorted(name.replace("!", "/") for name in os.listdir(place(sysroot, _CLASS)))
    except OSError:
        return []


def read_block_device(sysroot: str, name: str) -> BlockDevice:
    """Read what sysfs says of a block device. Raises OSError where there is none of that name."""
    folder = find_folder(name)
    number = read_file(sysroot, f"{folder}/dev").decode().strip()
    whole = _find_whole(sysroot, folder)
    owner = folder if whole is None else find_folder(whole)
    has_requests = os.path.exists(place(sysroot, f"{owner}/mq"))
    return BlockDevice(
        name,
        number,
        whole,
        _find_below(sysroot, folder),
        is_hidden=_find_flag(sysroot, f"{folder}/hidden") == "1",
        # Only request queues heed the switch: drivers of bios alone show 0 and keep accounts of their own.
        is_counted=not (has_requests and _find_flag(sysroot, f"{owner}/queue/iostats") == "0"),
        has_requests=has_requests,
    )


def _find_whole(sysroot: str, folder: str) -> str | None:
    """Find the device of a partition, whose folder lies inside that of its device."""
    if not os.path.exists(place(sysroot, f"{folder}/partition")):
        return None
    return os.path.basename(os.path.dirname(os.path.realpath(place(sysroot, folder)))).replace("!", "/")


def _find_below(sysroot: str, folder: str) -> tuple[str, ...]:
    try:
        below = sorted(name.replace("!", "/") for name in os.listdir(place(sysroot, f"{folder}/slaves")))
    except OSError:
        below = []
    if not below and os.path.exists(place(sysroot, f"{folder}/loop/backing_file")):
        return ("a file",)
    return tuple(below)


def _find_flag(sysroot: str, path: str) -> str | None:
    try:
        return read_file(sysroot, path).decode().strip()
    except OSError:
        return None


def get_block_device(sysroot: str, wanted: str) -> BlockDevice:
    """Return a block device by the kernel's name (`vda`, `sda1`), or by the path of its node or of a link to it.

    Raises MachineRefused, with a sentence for each way of not being one.
    """
    name = _get_name_of_node(sysroot, wanted) if wanted.startswith("/") else wanted
    try:
        return read_block_device(sysroot, name)
    except FileNotFoundError:
        raise MachineRefused(f"there is no block device {wanted!r}", _list_remedy(sysroot)) from None
    except OSError as error:
        raise MachineRefused(f"block device {wanted!r} cannot be looked at: {error.strerror}") from None


def _get_name_of_node(sysroot: str, path: str) -> str:
    try:
        found = os.stat(place(sysroot, path))
    except FileNotFoundError:
        raise MachineRefused(f"there is no {path!r}", _list_remedy(sysroot)) from None
    except OSError as error:
        raise MachineRefused(
            f"{path!r} cannot be looked at: {error.strerror}", "name the device as the kernel does, without a path"
        ) from None
    if not stat.S_ISBLK(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        below = find_name(sysroot, _spell(found.st_dev))
        remedy = _list_remedy(sysroot) if below is None else f"its file system is on {below}: ask for --dev {below}"
        raise MachineRefused(f"{path!r} is no block device: it is {kind}", remedy)
    name = find_name(sysroot, _spell(found.st_rdev))
    if name is None:
        raise MachineRefused(f"{path!r} is the node of block device {_spell(found.st_rdev)}, which is not there")
    return name


def find_name(sysroot: str, number: str) -> str | None:
    """Find the name of a device by its `major:minor`, None where there is none: /sys/dev/block has a link for each."""
    try:
        link = os.readlink(place(sysroot, f"{_NUMBERS}/{number}"))
    except OSError:
        return None
    return os.path.basename(link).replace("!", "/")


def _spell(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"


def _list_remedy(sysroot: str) -> str | None:
    """Name the devices that have a medium, the first of them where there are many."""
    names = [name for name in list_block_devices(sysroot) if _find_flag(sysroot, f"{find_folder(name)}/size") != "0"]
    if not names:
        return None
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"the machine's block devices are {', '.join(names[:_NAMED])}{rest}"
