"""What the files of /proc/net count: protocols, sockets, the backlog of each cpu. Pure functions; see proc(5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

SOFTNET_COUNTERS = {0: "processed", 1: "dropped", 2: "squeezed", 9: "rps", 10: "flow_limited"}
"""The columns of /proc/net/softnet_stat that count, by their place; those between them are zero since Linux 4.5."""

SOFTNET_WRAP = 1 << 32
"""Where they start over: the kernel keeps an unsigned int, and writes eight digits."""

_BACKLOG, _CPU = 11, 12


def parse_protocol_pairs(content: bytes) -> dict[str, dict[str, int]]:
    """Parse /proc/net/snmp or /proc/net/netstat: two lines a protocol, the names of its counters and what they hold."""
    protocols: dict[str, dict[str, int]] = {}
    lines = content.decode().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        protocol, colon, rest = names.partition(":")
        if colon and values.startswith(f"{protocol}:"):
            numbers = map(int, values[len(protocol) + 1 :].split())
            protocols.setdefault(protocol, {}).update(zip(rest.split(), numbers, strict=False))
    return protocols


def parse_protocol6(content: bytes) -> dict[str, dict[str, int]]:
    """Parse /proc/net/snmp6: a line a counter, whose name begins with its protocol's (`Ip6InReceives`)."""
    protocols: dict[str, dict[str, int]] = {}
    for line in content.decode().splitlines():
        name, _, value = line.partition("\t") if "\t" in line else line.partition(" ")
        protocol, six, counter = name.strip().partition("6")
        if six and value.strip():
            protocols.setdefault(protocol + six, {})[counter] = int(value)
    return protocols


def parse_socket_counts(content: bytes) -> dict[str, dict[str, int]]:
    """Parse /proc/net/sockstat or sockstat6: a line a protocol, of names and numbers in turn (`inuse 5 orphan 0`)."""
    protocols: dict[str, dict[str, int]] = {}
    for line in content.decode().splitlines():
        protocol, colon, rest = line.partition(":")
        if colon:
            words = rest.split()
            protocols[protocol] = dict(zip(words[::2], map(int, words[1::2]), strict=False))
    return protocols


def parse_softnet(content: bytes, online: tuple[int, ...]) -> dict[int, Mapping[str, int]]:
    """Parse /proc/net/softnet_stat: by cpu, the counters of `SOFTNET_COUNTERS` and `backlog`, packets that wait.

    Cpus that are offline have no line. Since Linux 5.10 a line says which cpu it is of, and its backlog; before that
    it is the line of one of those that are `online`, in their order: where there are not as many, none can be told.
    """
    lines = [[int(field, 16) for field in line.split()] for line in content.splitlines()]
    names = [line[_CPU] if len(line) > _CPU else None for line in lines]
    if None in names:
        names = list(online) if len(online) == len(lines) else []
    return {cpu: _name_columns(line) for cpu, line in zip(names, lines, strict=False) if cpu is not None}


def _name_columns(line: list[int]) -> dict[str, int]:
    named = {name: line[place] for place, name in SOFTNET_COUNTERS.items() if place < len(line)}
    return named | ({"backlog": line[_BACKLOG]} if len(line) > _BACKLOG else {})


def parse_tcp_states(content: bytes) -> Counter[int]:
    """Parse how many sockets /proc/net/tcp or tcp6 lists in each state, by its number (<net/tcp_states.h>)."""
    return Counter(int(line.split(None, 4)[3], 16) for line in content.split(b"\n")[1:] if line)
