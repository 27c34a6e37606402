"""Queueing disciplines as rtnetlink lists them: what they are, what they counted. See tc(8), RTM_GETQDISC."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import attrs

from omn_kernel.netlink import Dump, NetlinkSocket, find_attributes, parse_text

COUNTERS = ("bytes", "packets", "drops", "requeues", "overlimits")
"""What a discipline counts up: bytes and packets sent, packets dropped, put back, and held to a limit."""

WRAPS = dict.fromkeys(COUNTERS[1:], 1 << 32)
"""Those that start over at 2^32; packets do not where the kernel keeps 64 bits of them too (Linux 5.5)."""

_GET_QDISC = 38
_KIND, _STATS2 = 1, 7
_BASIC, _QUEUE, _PACKETS64 = 1, 3, 8
"""TCA_KIND, TCA_STATS2; TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_PKT64 of <linux/gen_stats.h>."""

_HEADER = struct.Struct("=BxxxiIII")
_ROOT = 0xFFFFFFFF
_BASIC_STATS, _QUEUE_STATS, _LONG = struct.Struct("=QI"), struct.Struct("=IIIII"), struct.Struct("=Q")


@attrs.define(eq=False)
class Qdisc:
    """A queueing discipline of an interface.

    `label` tells it from the interface's others: its kind, and its handle (`tbf 8001:`) or, where the kernel gave it
    none, the class that it stands in (`pfifo_fast :1`). `is_root` says that all that the interface sends passes it; the
    others are parts of it, or on the receiving side. `queued` and `backlog_bytes` are what it holds at this moment.
    """

    index: int
    kind: str
    label: str
    is_root: bool
    counters: Mapping[str, int]
    queued: int
    backlog_bytes: int


def read_qdiscs(connection: NetlinkSocket) -> list[Qdisc]:
    """Read every discipline of the socket's namespace. Raises OSError as `NetlinkSocket.dump` does."""
    return parse_qdiscs(connection.dump(_GET_QDISC, _HEADER.pack(0, 0, 0, 0, 0)))


def parse_qdiscs(dump: Dump) -> list[Qdisc]:
    """Parse a dump of RTM_NEWQDISC messages; one without statistics is left out."""
    found = (_find_qdisc(dump.content, start, end) for start, end in dump.bodies)
    return [qdisc for qdisc in found if qdisc is not None]


def _find_qdisc(content: bytes, start: int, end: int) -> Qdisc | None:
    _, index, handle, parent, _ = _HEADER.unpack_from(content, start)
    at = find_attributes(content, start + _HEADER.size, end)
    if _STATS2 not in at or _KIND not in at:
        return None
    stats = find_attributes(content, *at[_STATS2])
    if _BASIC not in stats or _QUEUE not in stats:
        return None
    kind = parse_text(content, at[_KIND])
    sent, packets = _BASIC_STATS.unpack_from(content, stats[_BASIC][0])
    if _PACKETS64 in stats:
        packets = _LONG.unpack_from(content, stats[_PACKETS64][0])[0]
    queued, backlog, drops, requeues, overlimits = _QUEUE_STATS.unpack_from(content, stats[_QUEUE][0])
    counters = dict(zip(COUNTERS, (sent, packets, drops, requeues, overlimits), strict=True))
    return Qdisc(index, kind, _spell(kind, handle, parent), parent == _ROOT, counters, queued, backlog)


def _spell(kind: str, handle: int, parent: int) -> str:
    if handle or parent == _ROOT:
        return f"{kind} {handle >> 16:x}:"
    major = f"{parent >> 16:x}" if parent >> 16 else ""
    return f"{kind} {major}:{parent & 0xFFFF:x}"
