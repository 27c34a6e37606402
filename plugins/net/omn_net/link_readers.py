"""Where the counters of interfaces are read: rtnetlink, in any network namespace; else sysfs, in omn's own."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Protocol

from omn_kernel.links import Link, read_links
from omn_kernel.namespaces import NetworkNamespace, open_netlink_socket
from omn_kernel.netlink import ROUTE, NetlinkSocket
from omn_kernel.polled import PolledFile, place, read_file

from omn_core.api import MachineRefused

_CLASS = "/sys/class/net"


class LinkReader(Protocol):
    """What reads every interface of one network namespace."""

    def read(self) -> dict[int, Link]:
        """Read them, by their indexes. Raises OSError where the kernel does not list them."""

    def close(self) -> None:
        """Let go of what is open."""


class NetlinkLinks:
    """Every interface in one dump of rtnetlink: names, indexes and counters of one moment."""

    def __init__(self, namespace: NetworkNamespace) -> None:
        try:
            self._socket = NetlinkSocket(open_netlink_socket(namespace, ROUTE))
        except OSError as error:
            raise MachineRefused(f"rtnetlink cannot be opened: {error.strerror}") from None

    def read(self) -> dict[int, Link]:
        """Read them in one dump."""
        return read_links(self._socket)

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()


class SysfsLinks:
    """Every interface by its folder in /sys/class/net, each counter a file (Documentation/ABI, sysfs-class-net).

    The files of an interface that is renamed stay its own. Raises MachineRefused for another network namespace than
    omn's, and where the sysfs that is mounted here shows another one's interfaces.
    """

    def __init__(self, namespace: NetworkNamespace, counters: Iterable[str]) -> None:
        if not namespace.is_own:
            raise MachineRefused("sysfs shows no other network namespace than that in which it was mounted")
        self._sysroot = namespace.sysroot
        self._counters = tuple(counters)
        self._files: dict[int, dict[str, PolledFile]] = {}
        listed = read_file(self._sysroot, "/proc/net/dev").decode("utf-8", "surrogateescape").splitlines()[2:]
        if {line.partition(":")[0].strip() for line in listed} != set(self._list_names()):
            raise MachineRefused(
                "the sysfs that is mounted here shows the interfaces of another network namespace",
                "mount sysfs in omn's own",
            )

    def _list_names(self) -> list[str]:
        folder = place(self._sysroot, _CLASS)
        return [name for name in sorted(os.listdir(folder)) if os.path.isdir(f"{folder}/{name}")]

    def read(self) -> dict[int, Link]:
        """Read each interface's files; one that goes away meanwhile is left out."""
        links: dict[int, Link] = {}
        for name in self._list_names():
            try:
                link = self._read_one(name)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EINVAL):
                    raise
                continue
            links[link.index] = link
        for index in self._files.keys() - links.keys():
            self._forget(index)
        return links

    def _read_one(self, name: str) -> Link:
        folder = f"{_CLASS}/{name}"
        index = self._read_number(f"{folder}/ifindex")
        if index not in self._files:
            self._files[index] = self._open(f"{place(self._sysroot, folder)}/statistics")
        counters = {counter: int(file.read()) for counter, file in self._files[index].items()}
        lower = self._read_number(f"{folder}/iflink")
        has_device = os.path.exists(place(self._sysroot, f"{folder}/device"))
        is_loopback = self._read_number(f"{folder}/type") == 772
        return Link(
            index,
            name,
            counters,
            None if has_device or is_loopback else "interface made of software",
            lower=None if lower in (0, index) else lower,
            is_loopback=is_loopback,
            has_device=has_device,
        )

    def _read_number(self, path: str) -> int:
        return int(read_file(self._sysroot, path))

    def _open(self, folder: str) -> dict[str, PolledFile]:
        """Open a file for each counter that this kernel keeps in sysfs."""
        there = frozenset(os.listdir(folder))
        return {name: PolledFile(f"{folder}/{name}", size=64) for name in self._counters if name in there}

    def _forget(self, index: int) -> None:
        for file in self._files.pop(index).values():
            file.close()

    def close(self) -> None:
        """Let go of every file."""
        for index in list(self._files):
            self._forget(index)


def open_links(backend: str, namespace: NetworkNamespace, counters: Iterable[str]) -> LinkReader:
    """Open the reader of a backend of the catalog. Raises MachineRefused where it cannot be opened."""
    if backend == "nl:route:link":
        return NetlinkLinks(namespace)
    return SysfsLinks(namespace, counters)
