"""What the numbers in a packet, and of why it was dropped, stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_CARRIED = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 47: "GRE", 50: "ESP", 58: "ICMPv6", 132: "SCTP"}
"""The numbers of <linux/in.h>."""
_ETHERTYPES = {0x0806: "ARP", 0x8100: "VLAN", 0x88CC: "LLDP"}
_IP = {0x0800: "IPv4", 0x86DD: "IPv6"}
_PREFIX = "SKB_DROP_REASON_"


def name_protocol(ethertype: int, carried: int | None) -> str | None:
    """Name what a packet is: what IP carries, else by its ethertype; None for one that has none (of Unix sockets).

    Where nobody tells what it carries (`carried` None), it is IP's own name.
    """
    if ethertype in _IP:
        if carried is None:
            return _IP[ethertype]
        return _CARRIED.get(carried) or f"{_IP[ethertype]} {carried}"
    return _ETHERTYPES.get(ethertype, f"{ethertype:#06x}") if ethertype else None


def name_reasons(reasons: Mapping[str, int]) -> Callable[[int], str | None]:
    """Return what names a reason as the kernel does, without what all of its names begin with.

    A number below zero is none, of a kernel that says none; another one that has no name here stays a number.
    """
    names = {number: name.removeprefix(_PREFIX) for name, number in reasons.items()}

    def name(number: int) -> str | None:
        return None if number < 0 else names.get(number, f"{number:#x}")

    return name
