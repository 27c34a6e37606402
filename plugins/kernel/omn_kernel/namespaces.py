"""Network namespaces: this process's own, another found by a name, and what is opened inside one. See namespaces(7).

A file of /proc/net and a netlink socket belong for good to the namespace in which they were opened, whoever reads
them. So they are opened by a thread that enters the namespace and ends: no other thread of omn is ever moved.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from omn_core.api import MachineRefused
from omn_kernel.native import calls
from omn_kernel.polled import PolledFile, place
from omn_kernel.privileges import explain, read_privileges
from omn_kernel.procfs.process import has_ended, refuse_reading

Opened = TypeVar("Opened")

NAMED = "/run/netns"
"""Where ip-netns(8) keeps a file for each namespace that has a name."""

PROCESS = "pid:"
"""What stands before the number of a process whose namespace is meant."""

_OWN = "/proc/self/ns/net"
_GET_KIND, _NETWORK = 0xB703, 0x40000000
"""NS_GET_NSTYPE of <linux/nsfs.h> (Linux 4.11), and CLONE_NEWNET, which it answers for a network namespace."""


@attrs.frozen
class NetworkNamespace:
    """A network namespace.

    `inode` tells it from every other for as long as it exists; `path` is the file that stands for it. `spelling` is
    what a person called it, None for omn's own; `is_own` says that omn is in it, whatever it was called.
    """

    inode: int
    path: str
    spelling: str | None
    is_own: bool
    sysroot: str = "/"


def read_own_network(sysroot: str) -> NetworkNamespace:
    """Read which network namespace omn is in. Raises MachineRefused where the kernel does not say."""
    return NetworkNamespace(_read_own_inode(sysroot), _OWN, None, is_own=True, sysroot=sysroot)


def _read_own_inode(sysroot: str) -> int:
    """Read the inode out of a link such as `net:[4026531840]`."""
    try:
        return int(os.readlink(place(sysroot, _OWN)).partition("[")[2].rstrip("]"))
    except (OSError, ValueError) as error:
        raise MachineRefused(f"{_OWN} does not say which network namespace omn is in: {error}") from None


def get_network(spelling: str, sysroot: str) -> NetworkNamespace:
    """Find the namespace that a person names: a name under /run/netns, `pid:4711`, or the path of its file.

    Raises MachineRefused where there is none, where it is a file of another kind, and where this user may not look.
    """
    pid = _find_pid(spelling)
    path = f"/proc/{pid}/ns/net" if pid is not None else spelling if spelling[:1] == "/" else f"{NAMED}/{spelling}"
    try:
        descriptor = os.open(place(sysroot, path), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        raise _refuse_absent(spelling, pid, sysroot) from None
    except OSError as error:
        if pid is not None and isinstance(error, PermissionError):
            raise refuse_reading(pid, "ns/net") from None
        raise MachineRefused(f"the network namespace {spelling!r} cannot be opened: {error.strerror}") from None
    try:
        _check_kind(descriptor, spelling)
        inode = os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
    return NetworkNamespace(inode, path, spelling, inode == _read_own_inode(sysroot), sysroot)


def list_networks(sysroot: str) -> list[NetworkNamespace]:
    """List the namespaces that can be found without asking each process: omn's own, and those with a name.

    One that is closed to this user is left out. Raises MachineRefused where the kernel does not say omn's own.
    """
    found = [read_own_network(sysroot)]
    try:
        names = sorted(os.listdir(place(sysroot, NAMED)))
    except OSError:
        return found
    for name in names:
        try:
            found.append(get_network(name, sysroot))
        except MachineRefused:
            continue
    return list({one.inode: one for one in reversed(found)}.values())


def _find_pid(spelling: str) -> int | None:
    """Find the process of `pid:4711`, None for another spelling. Raises MachineRefused for one that is no number."""
    if not spelling.startswith(PROCESS):
        return None
    number = spelling.removeprefix(PROCESS)
    if not (number.isascii() and number.isdigit()):
        raise MachineRefused(f"{spelling!r} names no process", "write its number, as in pid:4711")
    return int(number)


def _refuse_absent(spelling: str, pid: int | None, sysroot: str) -> MachineRefused:
    if pid is not None:
        ended = f"process {pid} is a zombie, which is in no network namespace any more"
        is_there = os.path.exists(place(sysroot, f"/proc/{pid}"))
        return MachineRefused(ended if is_there and has_ended(sysroot, pid) else f"there is no process {pid}")
    if spelling.startswith("/"):
        return MachineRefused(f"there is no {spelling!r} to name a network namespace")
    try:
        names = sorted(os.listdir(place(sysroot, NAMED)))
    except OSError:
        names = []
    known = f"those named there are {', '.join(names)}" if names else "none has a name there"
    return MachineRefused(
        f"no network namespace is called {spelling!r} under {NAMED}",
        f"{known}; a process's own is pid:NUMBER, and any other is the path of its file",
    )


def _check_kind(descriptor: int, spelling: str) -> None:
    """Refuse a file that stands for no network namespace."""
    try:
        kind = fcntl.ioctl(descriptor, _GET_KIND)
    except OSError:
        raise MachineRefused(f"{spelling!r} is a file, and no namespace stands behind it") from None
    if kind != _NETWORK:
        raise MachineRefused(f"{spelling!r} is a namespace of another kind, not of the network")


def run_in_network(namespace: NetworkNamespace, action: Callable[[], Opened]) -> Opened:
    """Do one thing inside a namespace, in a thread of its own unless it is omn's; return what that gives.

    Raises what the action raises, and MachineRefused where the namespace is gone or closed to this user: entering one
    takes CAP_SYS_ADMIN, in omn's user namespace and in that of the namespace.
    """
    if namespace.is_own:
        return action()
    outcome: list[Any] = []
    fault: list[BaseException] = []

    def enter_and_act() -> None:
        try:
            _enter(namespace)
            outcome.append(action())
        except (MachineRefused, OSError, ValueError) as error:
            fault.append(error)

    thread = threading.Thread(target=enter_and_act, name="omn-netns")
    thread.start()
    thread.join()
    if fault:
        raise fault[0]
    opened: Opened = outcome[0]
    return opened


def _enter(namespace: NetworkNamespace) -> None:
    """Move this thread. The file is looked at again: a name may have come to stand for another namespace."""
    what = f"the network namespace {namespace.spelling!r}"
    try:
        descriptor = os.open(place(namespace.sysroot, namespace.path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise MachineRefused(f"{what} cannot be opened any more: {error.strerror}") from None
    try:
        if os.fstat(descriptor).st_ino != namespace.inode:
            raise MachineRefused(f"{what} is another one than it was a moment ago")
        calls.enter_network(descriptor)
    except PermissionError:
        raise _refuse_entering(what) from None
    except OSError as error:
        raise MachineRefused(f"{what} cannot be entered: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _refuse_entering(what: str) -> MachineRefused:
    if read_privileges("/").has("sys_admin"):
        reason = "CAP_SYS_ADMIN is in effect, but not in the user namespace that owns it"
        return MachineRefused(f"{what} cannot be entered: {reason}", "run omn outside the container")
    reason, remedy = explain("sys_admin")
    return MachineRefused(f"{what} cannot be entered: {reason}", remedy)


def open_network_file(namespace: NetworkNamespace, name: str, *, many_records: bool = False) -> PolledFile:
    """Open a file of /proc/net as a namespace shows it (`dev`, `snmp`, `netstat`); it stays that namespace's.

    /proc/net itself is the first thread's, so that the file is opened by way of the thread that entered. Raises
    OSError as opening does, and MachineRefused as `run_in_network` does.
    """
    folder = "/proc/net" if namespace.sysroot != "/" else "/proc/thread-self/net"
    path = place(namespace.sysroot, f"{folder}/{name}")
    return run_in_network(namespace, lambda: PolledFile(path, many_records=many_records))


def open_netlink_socket(namespace: NetworkNamespace, protocol: int) -> socket.socket:
    """Open a netlink socket of a protocol of <linux/netlink.h> (0 route, 4 sock_diag, 16 generic) in a namespace.

    Everything that it asks is answered about that namespace. Raises OSError as socket(2) does, and MachineRefused as
    `run_in_network` does.
    """
    return run_in_network(
        namespace, lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    )
