"""Network interfaces as rtnetlink lists them: names, what stands on what, counters. See rtnetlink(7), RTM_GETLINK."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import attrs

from omn_kernel.netlink import Dump, NetlinkSocket, find_attributes, parse_number, parse_text

COUNTERS = (
    "rx_packets",
    "tx_packets",
    "rx_bytes",
    "tx_bytes",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "multicast",
    "collisions",
    "rx_length_errors",
    "rx_over_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "tx_aborted_errors",
    "tx_carrier_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_window_errors",
    "rx_compressed",
    "tx_compressed",
    "rx_nohandler",
    "rx_otherhost_dropped",
)
"""The fields of struct rtnl_link_stats64, in its order. Kernels before 4.6 end before `rx_nohandler`, those before 5.19
before `rx_otherhost_dropped`."""

_NEW_LINK, _GET_LINK = 16, 18
_NAME, _LOWER, _MASTER, _INFO, _STATS, _LOWER_NAMESPACE, _PARENT_DEVICE = 3, 5, 10, 18, 23, 37, 56
_INFO_KIND = 1
"""IFLA_IFNAME, IFLA_LINK, IFLA_MASTER, IFLA_LINKINFO, IFLA_STATS64, IFLA_LINK_NETNSID, IFLA_PARENT_DEV_NAME;
IFLA_INFO_KIND."""

_HEADER = struct.Struct("=BxHiII")
_LOOPBACK = 772
"""struct ifinfomsg, and ARPHRD_LOOPBACK."""


@attrs.define(eq=False)
class Link:
    """An interface of one network namespace.

    `kind` is what the kernel calls an interface made of software (`veth`, `bridge`, `vlan`), None for hardware and for
    the loopback. `master` is the index of the interface that it is a part of; `lower` that of the one below it, or of
    its other end, and `is_lower_elsewhere` says that this is another namespace's. `has_device` says that there is a
    device of a bus behind it. A counter that this kernel does not keep is not in `counters`.
    """

    index: int
    name: str
    counters: Mapping[str, int]
    kind: str | None = None
    master: int | None = None
    lower: int | None = None
    is_lower_elsewhere: bool = False
    is_loopback: bool = False
    has_device: bool = False

    @property
    def has_moved(self) -> bool:
        """Whether it sent or received anything, or failed to, since the kernel made it."""
        return any(self.counters.values())


def read_links(connection: NetlinkSocket) -> dict[int, Link]:
    """Read every interface of the socket's namespace, by its index. Raises OSError as `NetlinkSocket.dump` does."""
    return parse_links(connection.dump(_GET_LINK, _HEADER.pack(0, 0, 0, 0, 0)))


def parse_links(dump: Dump) -> dict[int, Link]:
    """Parse a dump of RTM_NEWLINK messages."""
    links = (_parse_link(dump.content, start, end) for start, end in dump.bodies)
    return {link.index: link for link in links}


def _parse_link(content: bytes, start: int, end: int) -> Link:
    _, type_, index, _, _ = _HEADER.unpack_from(content, start)
    at = find_attributes(content, start + _HEADER.size, end)
    lower = parse_number(content, at[_LOWER]) if _LOWER in at else index
    return Link(
        index,
        parse_text(content, at[_NAME]),
        _parse_counters(content, at.get(_STATS)),
        _find_kind(content, at.get(_INFO)),
        parse_number(content, at[_MASTER]) if _MASTER in at else None,
        # An interface that stands on nothing names itself, or number 0.
        lower if lower not in (0, index) or _LOWER_NAMESPACE in at else None,
        _LOWER_NAMESPACE in at,
        type_ == _LOOPBACK,
        _PARENT_DEVICE in at,
    )


def _parse_counters(content: bytes, place: tuple[int, int] | None) -> dict[str, int]:
    if place is None:
        return {}
    count = min((place[1] - place[0]) // 8, len(COUNTERS))
    return dict(zip(COUNTERS, struct.unpack_from(f"={count}Q", content, place[0]), strict=False))


def _find_kind(content: bytes, place: tuple[int, int] | None) -> str | None:
    if place is None:
        return None
    kind = find_attributes(content, *place).get(_INFO_KIND)
    return None if kind is None else parse_text(content, kind)
