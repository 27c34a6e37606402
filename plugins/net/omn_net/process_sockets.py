"""The sockets that processes hold, by the inodes among their descriptors, and the namespaces that those are in."""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from omn_kernel.followed import Followed, Round
from omn_kernel.namespaces import NetworkNamespace, get_network, open_netlink_socket, read_own_network
from omn_kernel.netlink import SOCK_DIAG, NetlinkSocket
from omn_kernel.polled import place
from omn_kernel.polling import Rows
from omn_kernel.processes import ProcessCollector
from omn_kernel.procfs.process import ProcessGone, find_folder, has_ended, refuse_reading
from omn_kernel.sock_diag import SocketTable, read_sockets

from omn_core.api import Array, BoundTarget, MachineRefused

FAMILIES = (socket.AF_INET, socket.AF_INET6)


def open_sock_diag(namespace: NetworkNamespace) -> NetlinkSocket:
    """Open the socket that lists a namespace's. Raises MachineRefused where it cannot be opened."""
    try:
        return NetlinkSocket(open_netlink_socket(namespace, SOCK_DIAG))
    except OSError as error:
        raise MachineRefused(f"sock_diag cannot be opened: {error.strerror}") from None


def read_tcp(connection: NetlinkSocket, states: int, extension: int | None) -> list[SocketTable]:
    """Read the TCP sockets of a namespace, IPv4's and IPv6's; a kernel without IPv6 lists none of its."""
    return [
        read_sockets(connection, family, socket.IPPROTO_TCP, states=states, extension=extension) for family in FAMILIES
    ]


class SocketInodes:
    """The inodes of the sockets that a process holds, and its network namespace."""

    name = "fd"

    def __init__(self, sysroot: str, pid: int) -> None:
        self._sysroot = sysroot
        self._pid = pid
        self._folder = place(sysroot, find_folder(pid))

    def read(self) -> tuple[int, frozenset[int]]:
        """Read the namespace's inode and the sockets'.

        Raises ProcessGone when the process has ended, MachineRefused where its descriptors are closed to this user.
        """
        try:
            namespace = os.stat(f"{self._folder}/ns/net").st_ino
            inodes = self._read_inodes()
        except (FileNotFoundError, ProcessLookupError):
            raise ProcessGone(f"process {self._pid} has ended") from None
        except PermissionError:
            raise refuse_reading(self._pid, "fd") from None
        if not inodes and has_ended(self._sysroot, self._pid):
            raise ProcessGone(f"process {self._pid} has ended")
        return namespace, inodes

    def _read_inodes(self) -> frozenset[int]:
        inodes = set()
        for name in os.listdir(f"{self._folder}/fd"):
            try:
                link = os.readlink(f"{self._folder}/fd/{name}")
            except FileNotFoundError:
                continue  # closed since the listing
            if link.startswith("socket:["):
                inodes.add(int(link[8:-1]))
        return frozenset(inodes)

    def close(self) -> None:
        """Do nothing: nothing is held."""


Held = tuple[int, frozenset[int]]


class ProcessSockets(ProcessCollector[Held], ABC):
    """A collector of the TCP sockets that each process of the target holds: a subclass says which, and makes rows.

    They are looked for in each network namespace that a process is in; entering another than omn's takes
    CAP_SYS_ADMIN.
    """

    reads_at_open = True
    states: int
    extension: int | None = None

    def open_files(self, target: BoundTarget) -> None:
        """Follow the processes, and open their namespaces. One that is closed to this user is refused."""
        self._connections: dict[int, NetlinkSocket] = {}
        self._held.callback(self._close_connections)
        self._own = read_own_network(self.context.sysroot)
        super().open_files(target)
        for process in self.followed.named:
            try:
                held = process.source.read()
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None
            if held is not None:
                self._connect(held[0], process.pid)

    def open_source(self, pid: int, tid: int | None) -> SocketInodes:
        """Open what is read of a process: its threads share its descriptors."""
        return SocketInodes(self.context.sysroot, pid)

    def read(self) -> Round[Held]:
        """Read what each process holds, and after that the sockets of their namespaces."""
        content = super().read()
        self._tables: dict[int, list[SocketTable]] = {}
        for process, (namespace, _) in zip(content.processes, content.rows, strict=True):
            if namespace not in self._tables:
                self._tables[namespace] = self._read_tables(namespace, process.pid)
        return content

    def _read_tables(self, namespace: int, pid: int) -> list[SocketTable]:
        try:
            self._connect(namespace, pid)
            return read_tcp(self._connections[namespace], self.states, self.extension)
        except MachineRefused as refused:
            self.misses.note(str(refused))
        except OSError as error:
            self.misses.note(f"the sockets could not be listed: {error.strerror}")
        return []

    def _connect(self, namespace: int, pid: int) -> None:
        """Open the namespace of a process, which may have moved there since it was attached."""
        if namespace not in self._connections:
            found = self._own if namespace == self._own.inode else get_network(f"pid:{pid}", self.context.sysroot)
            self._connections[namespace] = open_sock_diag(found)

    def make_rows(self, content: Round[Held], at_ns: int) -> Rows:
        """Return the rows of each process's sockets."""
        found: dict[Followed[Held], list[SocketTable]] = {}
        for process, (namespace, inodes) in zip(content.processes, content.rows, strict=True):
            held = np.array(sorted(inodes), np.int64)
            tables = self._tables[namespace]
            found[process] = [table.select(_find_held(table, held)) for table in tables]
        return self.make_socket_rows(found)

    @abstractmethod
    def make_socket_rows(self, found: Mapping[Followed[Held], list[SocketTable]]) -> Rows:
        """Make the rows of the sockets that were found of each process."""

    def _close_connections(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _find_held(table: SocketTable, held: Array) -> Array:
    return np.isin(table.inodes(), held)
