"""Network interfaces: an index and a name in one network namespace. See netdevice(7) and if_nameindex(3)."""

from __future__ import annotations

import difflib
import os
import socket

import attrs

from omn_core.api import BoundTarget, MachineRefused, ProbeContext, Target
from omn_kernel.namespaces import NetworkNamespace, get_network, read_own_network, run_in_network
from omn_kernel.polled import place, read_file

_CLASS = "/sys/class/net"
_NAMED = 12


@attrs.frozen
class Interface:
    """An interface as it was found. A rename leaves its index alone; a name may pass to another interface.

    The index is its namespace's own: another namespace has an interface of the same one.
    """

    namespace: NetworkNamespace
    index: int
    name: str

    @property
    def key(self) -> str:
        """What the key `iface` holds of it: `<namespace inode>:<index>`."""
        return f"{self.namespace.inode}:{self.index}"

    def describe(self) -> dict[str, object]:
        """Say which one it is, for a result."""
        named = {} if self.namespace.spelling is None else {"netns": self.namespace.spelling}
        return {"interface": self.name, "index": self.index, "netns_inode": self.namespace.inode, **named}


def split_interface(spelling: str) -> tuple[str | None, str]:
    """Split `eth0`, `NAME/eth0`, `pid:4711/eth0` or `/path/of/namespace/eth0` into the namespace and the interface.

    No interface's name holds a slash, so that the last one divides them.
    """
    namespace, slash, name = spelling.rpartition("/")
    return (namespace if slash else None), name


def read_interfaces(namespace: NetworkNamespace) -> dict[str, int]:
    """Read the index of every interface of a namespace, by name, in the kernel's order.

    Raises MachineRefused where the namespace cannot be entered, OSError where the kernel does not list them.
    """
    if namespace.sysroot != "/":
        return _read_class(namespace.sysroot)
    return {name: index for index, name in run_in_network(namespace, socket.if_nameindex)}


def _read_class(sysroot: str) -> dict[str, int]:
    """Read them out of a folder that stands for /. A machine's sysfs need not show the namespace that omn is in.

    Beside the interfaces there may be the file of the bonding driver.
    """
    folder = place(sysroot, _CLASS)
    names = [name for name in sorted(os.listdir(folder)) if os.path.isdir(f"{folder}/{name}")]
    return {name: int(read_file(sysroot, f"{_CLASS}/{name}/ifindex")) for name in names}


def get_interface(spelling: str, sysroot: str) -> Interface:
    """Find an interface by what a person calls it. Raises MachineRefused, with the names that are nearest to it."""
    outer, name = split_interface(spelling)
    if not name:
        raise MachineRefused(f"{spelling!r} names no interface", "write it after the last '/'")
    namespace = read_own_network(sysroot) if outer is None else get_network(outer or "/", sysroot)
    where = "here" if outer is None else f"in the network namespace {outer!r}"
    try:
        known = read_interfaces(namespace)
    except OSError as error:
        raise MachineRefused(f"the interfaces {where} cannot be listed: {error.strerror}") from None
    if name not in known:
        raise MachineRefused(f"there is no interface {name!r} {where}", _suggest(name, list(known)))
    return Interface(namespace, known[name], name)


def _suggest(name: str, known: list[str]) -> str | None:
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    if not known:
        return None
    rest = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"those there are {', '.join(known[:_NAMED])}{rest}"


def bind_iface(target: Target, context: ProbeContext) -> BoundTarget:
    """Find an interface in omn's network namespace or in a named one; its `place` is an `Interface`.

    `eth0` is omn's own; `NAME/eth0`, `pid:4711/eth0` and `/path/eth0` are in the namespace of that name under
    /run/netns, of that process, and behind that file. A collector opens what it reads there with
    `namespaces.open_network_file` and `namespaces.open_netlink_socket`, follows it by `place.index`, and writes
    `place.key`. Raises MachineRefused where there is no such interface or namespace, or where it may not be entered.
    """
    found = get_interface(target.value, context.sysroot)
    return BoundTarget(target, target.scope, place=found, described=found.describe())
