"""iproute2: ip, ss, nstat."""

from __future__ import annotations

import json
import re

from reference.parsing import Figures, UnreadableError, parse_number

_COUNTERS = ("bytes", "packets", "errors", "dropped")


def parse_link(text: str) -> Figures:
    """Read `ip -s -j link`: each interface's counters, `eth0.tx_bytes`."""
    try:
        return {
            f"{link['ifname']}.{way}_{counter}": link["stats64"][way][counter]
            for link in json.loads(text)
            for way in ("rx", "tx")
            for counter in _COUNTERS
        }
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableError(f"no links of ip: {error!r}") from error


def parse_sockets(text: str) -> Figures:
    """Read `ss -H -tanp`: how many sockets each process has in each state, `12.ESTAB`."""
    found: dict[str, float] = {}
    rows = [line.split() for line in text.splitlines() if line.strip()]
    if not rows or any(len(row) < 5 for row in rows):
        raise UnreadableError("no rows of sockets")
    for row in rows:
        for pid in set(re.findall(r"pid=(\d+),", row[-1])):
            found[f"{pid}.{row[0]}"] = found.get(f"{pid}.{row[0]}", 0) + 1
    return found


def parse_round_trip(text: str) -> Figures:
    """Read `ss -H -O -tin` of one connection: its smoothed round trip and the least one, printed in milliseconds."""
    smoothed = re.findall(r"\brtt:([\d.]+)/([\d.]+)", text)
    least = re.findall(r"\bminrtt:([\d.]+)", text)
    if len(smoothed) != 1:
        raise UnreadableError(f"{len(smoothed)} connections, and one is expected")
    found = {"rtt_ns": parse_number(smoothed[0][0]) * 10**6, "rttvar_ns": parse_number(smoothed[0][1]) * 10**6}
    return {**found, "min_rtt_ns": parse_number(least[0]) * 10**6} if least else found


def parse_socket_summary(text: str) -> Figures:
    """Read `ss -s`: how many sockets of each protocol the kernel keeps, `UDP.total`."""
    rows = re.findall(r"^(RAW|UDP|TCP|INET|FRAG)\s+(\d+)\s+(\d+)\s+(\d+)\s*$", text, re.M)
    if not rows:
        raise UnreadableError("no table of protocols")
    return {f"{protocol}.total": int(total) for protocol, total, _, _ in rows}


def parse_nstat(text: str) -> Figures:
    """Read `nstat -asz`: each counter by its name, since the namespace was made."""
    found = {row[0]: parse_number(row[1]) for row in map(str.split, text.splitlines()) if len(row) == 3}
    if not found:
        raise UnreadableError("no counter")
    return found
