"""Sockets as the kernel lists them through sock_diag(7): states, addresses, queues, what TCP knows of a connection."""

from __future__ import annotations

import copy
import socket
import struct
import sys

import attrs
import numpy as np

from omn_core.api import Array
from omn_kernel.netlink import Dump, NetlinkSocket, find_attributes

TCP_STATES = (
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "SYN_RECV",
    "BOUND_INACTIVE",
)
"""The states of <net/tcp_states.h>, the first of which is number 1. NEW_SYN_RECV, the twelfth, is one kind of SYN_RECV;
BOUND_INACTIVE is listed since Linux 6.8."""

CONNECTED = ("ESTABLISHED", "FIN_WAIT1", "FIN_WAIT2", "CLOSE_WAIT", "LAST_ACK", "CLOSING")
"""The states of a connection that was made and of which the kernel still knows times."""

INFO, MEMORY = 2, 7
"""INET_DIAG_INFO and INET_DIAG_SKMEMINFO of <linux/inet_diag.h>."""

FAMILIES = (socket.AF_INET, socket.AF_INET6)

_BY_FAMILY = 20
"""SOCK_DIAG_BY_FAMILY."""

_ALL_STATES = 0xFFFFFFFF
_REQUEST = struct.Struct("=BBBxI48x")
_STATE, _PORTS, _LOCAL, _REMOTE, _COOKIE, _QUEUES, _INODE, _BODY_BYTES = 1, 4, 8, 24, 44, 56, 68, 72
"""Where the fields of struct inet_diag_msg stand, and its length."""


def read_sockets(
    connection: NetlinkSocket, family: int, protocol: int, *, states: int = _ALL_STATES, extension: int | None = None
) -> SocketTable:
    """Read every socket of a family and protocol in the socket's namespace; `states` is a mask of 1 << state.

    `extension` is `INFO` or `MEMORY`, which the kernel then adds to each. Raises OSError as `NetlinkSocket.dump` does.
    """
    wanted = 0 if extension is None else 1 << extension - 1
    return SocketTable(connection.dump(_BY_FAMILY, _REQUEST.pack(family, protocol, wanted, states)))


def make_state_mask(names: tuple[str, ...]) -> int:
    """Return the mask of some states of TCP, by their names."""
    return sum(1 << number for number, name in enumerate(TCP_STATES, 1) if name in names)


class SocketTable:
    """The sockets of a dump in columns, one place each, so that ten thousand cost milliseconds."""

    def __init__(self, dump: Dump) -> None:
        self._content = dump.content
        bodies = np.array(dump.bodies, np.int64).reshape(-1, 2)
        self._starts, self._ends = bodies[:, 0], bodies[:, 1]
        self._bytes = np.frombuffer(dump.content, np.uint8)
        self._shorts = np.frombuffer(dump.content, np.uint16)
        self._words = np.frombuffer(dump.content, np.uint32)

    def __len__(self) -> int:
        return len(self._starts)

    def states(self) -> Array:
        """Return the number of each socket's state, 1 for the first of `TCP_STATES`."""
        return self._bytes[self._starts + _STATE]

    def inodes(self) -> Array:
        """Return the inode by which a process's descriptors name a socket, 0 for one that no process holds."""
        return self.words(self._starts, _INODE)

    def cookies(self) -> Array:
        """Return the cookie of each socket, which no other one ever has."""
        return self._words_of_64(self._starts + _COOKIE)

    def local_ports(self) -> Array:
        """Return the port at this end."""
        return self._shorts[(self._starts + _PORTS) // 2].view(">u2").astype(np.int64)

    def remote_ports(self) -> Array:
        """Return the port at the other end, 0 without one."""
        return self._shorts[(self._starts + _PORTS) // 2 + 1].view(">u2").astype(np.int64)

    def queued(self) -> tuple[Array, Array]:
        """Return the bytes that wait to be received, and to be sent; a listener's are connections."""
        return self.words(self._starts, _QUEUES), self.words(self._starts, _QUEUES + 4)

    def list_addresses(self, is_remote: bool = False) -> list[str]:
        """List the address at one end of each socket."""
        at, length = (_REMOTE, 16) if is_remote else (_LOCAL, 16)
        spelled: dict[tuple[int, bytes], str] = {}
        listed = []
        for start in self._starts.tolist():
            one = (self._content[start], self._content[start + at : start + at + length])
            if one not in spelled:
                spelled[one] = socket.inet_ntop(one[0], one[1][: 4 if one[0] == socket.AF_INET else 16])
            listed.append(spelled[one])
        return listed

    def select(self, index: Array) -> SocketTable:
        """Return the table of some of the sockets, by a mask or an index."""
        chosen = copy.copy(self)
        chosen._starts, chosen._ends = self._starts[index], self._ends[index]
        return chosen

    def words(self, places: Array, offset: int | Array) -> Array:
        """Return the 32-bit number at an offset from each of some places; what is past the end is another's."""
        return self._words[np.minimum((places + offset) // 4, len(self._words) - 1)].astype(np.int64)

    def find_extensions(self, kind: int) -> tuple[Array, Array]:
        """Find where an extension of each socket starts, -1 where the kernel gave none, and its length.

        Sockets of one kind are laid out alike: where it was found for one it is tried first for the next.
        """
        starts = np.full(len(self), -1, np.int64)
        offset = 0
        for place, (first, last) in enumerate(zip(self._starts.tolist(), self._ends.tolist(), strict=True)):
            if offset and first + offset <= last and self._is_attribute(first + offset, kind):
                starts[place] = first + offset
                continue
            found = find_attributes(self._content, first + _BODY_BYTES, last).get(kind)
            if found is not None:
                starts[place] = found[0]
                offset = found[0] - first
        lengths = self._shorts[np.maximum(starts - 4, 0) // 2].astype(np.int64) - 4
        return starts, np.where(starts < 0, 0, lengths)

    def _is_attribute(self, start: int, kind: int) -> bool:
        return bool(int.from_bytes(self._content[start - 2 : start], sys.byteorder) & 0x3FFF == kind)

    def _words_of_64(self, places: Array) -> Array:
        parts = np.stack([self._words[places // 4], self._words[places // 4 + 1]], axis=1)
        return np.ascontiguousarray(parts).view(np.uint64).reshape(-1)


@attrs.frozen(eq=False)
class RoundTrips:
    """What TCP holds a round trip to take, a place for each socket, nanoseconds: smoothed, how it varies, the least.

    `is_measured` is false where the kernel has not measured any, and `has_least` where it does not keep the least one
    (before Linux 4.6). `retransmits` counts all segments that were sent again.
    """

    rtt_ns: Array
    rttvar_ns: Array
    min_rtt_ns: Array
    retransmits: Array
    is_measured: Array
    has_least: Array


_RTT, _VARIATION, _RETRANSMITS, _LEAST = 68, 72, 100, 148
"""Where tcpi_rtt, tcpi_rttvar, tcpi_total_retrans and tcpi_min_rtt stand in struct tcp_info, which grows at its end."""

_UNMEASURED = 0xFFFFFFFF
_NS_PER_US = 1000


def compute_round_trips(table: SocketTable) -> RoundTrips:
    """Compute the round trips of a table that was read with `INFO`, however long this kernel's struct tcp_info is."""
    starts, lengths = table.find_extensions(INFO)
    places = np.maximum(starts, 0)
    rtt, least = table.words(places, _RTT), table.words(places, np.where(lengths >= _LEAST + 4, _LEAST, 0))
    has_least = (lengths >= _LEAST + 4) & (least != _UNMEASURED)
    return RoundTrips(
        rtt * _NS_PER_US,
        table.words(places, _VARIATION) * _NS_PER_US,
        least * _NS_PER_US,
        table.words(places, _RETRANSMITS),
        (lengths >= _RETRANSMITS + 4) & (rtt > 0),
        has_least,
    )


_DROPS = 32
"""Where SK_MEMINFO_DROPS stands (Linux 4.9)."""


def compute_drops(table: SocketTable) -> Array:
    """Compute what each socket of a table read with `MEMORY` dropped for want of room, -1 where no kernel says it."""
    starts, lengths = table.find_extensions(MEMORY)
    has_drops = lengths >= _DROPS + 4
    return np.where(has_drops, table.words(np.maximum(starts, 0), np.where(has_drops, _DROPS, 0)), -1)
