"""The counters that an interface's driver keeps under names of its own. See <linux/ethtool.h> and netdevice(7)."""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_GET_SET_INFO, _GET_STRINGS, _GET_STATS = 0x37, 0x1B, 0x1D
_STATS_SET = 1
_NAME_BYTES = 32
"""ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS; ETH_SS_STATS; ETH_GSTRING_LEN."""


def read_driver_counters(connection: socket.socket, interface: str) -> dict[str, int]:
    """Read what an interface's driver counts, by the driver's names; empty where it counts nothing of its own.

    `connection` is any socket of the interface's namespace. A driver may list levels among its counters, and one name
    twice, of which the last counts. Raises OSError where there is no such interface.
    """
    try:
        count = _read_count(connection, interface)
        if not count:
            return {}
        strings = struct.pack("=III", _GET_STRINGS, _STATS_SET, count) + bytes(count * _NAME_BYTES)
        names = _ask(connection, interface, strings)[12:]
        values = _ask(connection, interface, struct.pack("=II", _GET_STATS, count) + bytes(count * 8))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return {}
        raise
    return dict(zip(_split_names(names, count), struct.unpack_from(f"={count}Q", values, 8), strict=True))


def _read_count(connection: socket.socket, interface: str) -> int:
    answer = _ask(connection, interface, struct.pack("=IIQI", _GET_SET_INFO, 0, 1 << _STATS_SET, 0))
    has_stats = struct.unpack_from("=Q", answer, 8)[0]
    return int(struct.unpack_from("=I", answer, 16)[0]) if has_stats else 0


def _split_names(content: bytes, count: int) -> list[str]:
    pieces = (content[place : place + _NAME_BYTES] for place in range(0, count * _NAME_BYTES, _NAME_BYTES))
    return [piece.partition(b"\0")[0].decode("utf-8", "backslashreplace").strip() for piece in pieces]


def _ask(connection: socket.socket, interface: str, request: bytes) -> bytes:
    """Hand the driver a request to fill in, by its address, as struct ifreq carries it."""
    buffer = array.array("B", request)
    address, _ = buffer.buffer_info()
    name = interface.encode("utf-8", "surrogateescape")
    fcntl.ioctl(connection.fileno(), _SIOCETHTOOL, struct.pack("16sP16x", name, address))
    return buffer.tobytes()
