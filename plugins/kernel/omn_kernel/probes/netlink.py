"""netlink families: a protocol by opening a socket of it, a generic family by asking the controller for it."""

from __future__ import annotations

import socket
import struct

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.netlink import SOCK_DIAG, NetlinkSocket

_PROTOCOLS = {"route": 0, "sock_diag": 4, "audit": 9, "connector": 11, "kobject_uevent": 15, "generic": 16}
"""Protocols of <linux/netlink.h> by their lower-case names; any other word is a family of generic netlink."""

_LISTED = {"tcp_diag": socket.IPPROTO_TCP, "udp_diag": socket.IPPROTO_UDP}
"""Protocols whose sockets sock_diag(7) lists where the kernel has, or can load, the module of that name."""

_BY_FAMILY = 20
_LISTING = struct.Struct("=BBBxI48x")
"""SOCK_DIAG_BY_FAMILY, and struct inet_diag_req_v2: the family, the protocol, extensions, a mask of states."""

_CONTROLLER, _GET_FAMILY, _FAMILY_NAME = 0x10, 3, 2
_REQUEST, _ERROR = 1, 2
_ABSENT = 2
"""GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, NLM_F_REQUEST, NLMSG_ERROR and ENOENT."""


def probe_netlink(need: Need, context: ProbeContext) -> Probe:
    """Answer `netlink:route`, `netlink:tcp_diag`, `netlink:TASKSTATS`; missing where a folder stands for a machine."""
    if context.sysroot != "/":
        return Probe(State.MISSING, "netlink asks this machine's kernel, and a folder stands in for the machine")
    if need.argument in _LISTED:
        return _probe_listing(need.argument)
    protocol = _PROTOCOLS.get(need.argument, _PROTOCOLS["generic"])
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as connection:
            if need.argument in _PROTOCOLS:
                return AVAILABLE
            connection.settimeout(1.0)
            connection.send(make_family_request(need.argument))
            refusal = parse_error(connection.recv(65536))
    except PermissionError:
        return Probe(State.RESTRICTED, f"netlink {need.argument} is closed to this user", "run omn as root")
    except TimeoutError:
        return Probe(State.UNKNOWN, f"the netlink controller did not answer for {need.argument}")
    except OSError as error:
        return Probe(State.MISSING, f"this kernel has no netlink {need.argument} ({error.strerror})")
    if refusal == 0:
        return AVAILABLE
    if refusal == _ABSENT:
        return Probe(State.MISSING, f"this kernel has no netlink family {need.argument}")
    return Probe(State.UNKNOWN, f"the netlink controller answers error {refusal} for {need.argument}")


def _probe_listing(name: str) -> Probe:
    """Ask for the sockets of a protocol in no state, which are none: a kernel that cannot list them says so.

    The socket itself opens on every kernel, and the module that answers is another's; the kernel loads it when asked.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as connection:
            NetlinkSocket(connection).dump(_BY_FAMILY, _LISTING.pack(socket.AF_INET, _LISTED[name], 0, 0))
    except PermissionError:
        return Probe(State.RESTRICTED, f"netlink {name} is closed to this user", "run omn as root")
    except BlockingIOError:
        return Probe(State.UNKNOWN, f"the kernel did not answer for {name}")
    except OSError as error:
        reason = f"this kernel lists no sockets of that kind: it has no {name} and can load none ({error.strerror})"
        return Probe(State.MISSING, reason)
    return AVAILABLE


def make_family_request(name: str) -> bytes:
    """Make the message that asks generic netlink's controller for a family by name."""
    text = name.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(text), _FAMILY_NAME) + text + b"\0" * (-len(text) % 4)
    body = struct.pack("=BBH", _GET_FAMILY, 1, 0) + attribute
    return struct.pack("=IHHII", 16 + len(body), _CONTROLLER, _REQUEST, 1, 0) + body


def parse_error(message: bytes) -> int:
    """Parse the errno of an answer, zero for one that is no error. Raises OSError for an answer cut short."""
    if len(message) < 16:
        raise OSError("a netlink answer is cut short")
    kind = struct.unpack_from("=H", message, 4)[0]
    return -struct.unpack_from("=i", message, 16)[0] if kind == _ERROR and len(message) >= 20 else 0
