"""net.snmp, net.tcp.retransmit and net.socket: what the protocols of omn's network namespace count and hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from omn_kernel.counters import Account, Accounts
from omn_kernel.polled import PolledFile, place
from omn_kernel.polling import MachineFileCollector, PolledCollector, Rows
from omn_kernel.procfs.net import parse_protocol6, parse_protocol_pairs, parse_socket_counts
from omn_kernel.procfs.task import PAGE_BYTES

from omn_core.api import BoundTarget, MachineRefused, ResolvedRequest, RunContext
from omn_net.counter_rows import check_divided

Protocols = Mapping[str, Mapping[str, int]]

_LEVELS = frozenset(
    {
        "IpForwarding",
        "IpDefaultTTL",
        "TcpRtoAlgorithm",
        "TcpRtoMin",
        "TcpRtoMax",
        "TcpMaxConn",
        "TcpCurrEstab",
        "MPTcpExtMPCurrEstab",
    }
)
"""What these files hold beside counters: settings, and connections of this moment. They grow by nothing."""


def find_network_file(collector: PolledCollector[Any], name: str) -> PolledFile | None:
    """Find and open a file of /proc/net that a kernel without its protocol lacks, until the collector stops."""
    path = f"/proc/net/{name}"
    there = os.path.exists(place(collector.context.sysroot, path))
    return collector.open_file(path, many_records=True, size=8192) if there else None


class ProtocolCounters(PolledCollector[Protocols]):
    """net.snmp: a row for each counter that moved in an interval, by its name as nstat spells it (`TcpRetransSegs`).

    A snapshot lists every counter, and what is none, as it stands.
    """

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Refuse a figure that adds counters up."""
        check_divided(resolved)
        super().prepare(resolved, context)
        self._lists_all = self.reads_at_open = resolved.mode == "snapshot"

    def open_files(self, target: BoundTarget) -> None:
        """Open the files; a kernel without IPv6 has one less."""
        self._pairs = [self.open_file(f"/proc/net/{name}", many_records=True) for name in ("snmp", "netstat")]
        self._six = find_network_file(self, "snmp6")
        self._accounts: Accounts[str] = Accounts(self.misses, lambda protocol: protocol)
        self._read_ns: int | None = None

    def read(self) -> Protocols:
        """Read every protocol."""
        protocols: dict[str, Mapping[str, int]] = {}
        for file in self._pairs:
            protocols |= parse_protocol_pairs(file.read())
        return protocols if self._six is None else protocols | parse_protocol6(self._six.read())

    def make_rows(self, content: Protocols, at_ns: int) -> Rows:
        """Return a row for each counter that has something to say."""
        protocols = {protocol + name: protocol for protocol, counters in content.items() for name in counters}
        amounts = {protocol + name: value for protocol, counters in content.items() for name, value in counters.items()}
        if not self._lists_all:
            amounts = self._advance(amounts, protocols, at_ns)
        if not amounts:
            return Rows()
        keys = {"counter": list(amounts), "protocol": [protocols[name] for name in amounts]}
        return Rows(keys, {"amount": list(amounts.values())})

    def _advance(self, amounts: Mapping[str, int], protocols: Mapping[str, str], at_ns: int) -> dict[str, int]:
        """Return what moved since the last reading: counters of a protocol in one account, those of a type in theirs.

        The kernel writes a type of message (`IcmpMsgInType3`) from its first on, so that it was none before.
        """
        readings: dict[str, dict[str, int]] = {}
        for name, value in amounts.items():
            if name not in _LEVELS:
                readings.setdefault(name if "Type" in name else protocols[name], {})[name] = value
        for name in readings if self._read_ns is not None else ():
            if name in amounts and name not in self._accounts:
                self._accounts.advance_one(name, {name: 0}, self._read_ns or 0)
        self._read_ns = at_ns
        grown = self._accounts.advance(readings, at_ns)
        return {name: by for growth in grown.values() for name, by in growth.by.items() if by}


class Retransmits(MachineFileCollector):
    """net.tcp.retransmit: the segments that TCP sent again in omn's network namespace, one row an interval."""

    path = "/proc/net/snmp"
    many_records = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the file. Raises MachineRefused where this kernel has no TCP."""
        super().open_files(target)
        self._account = Account("TCP", self.misses)
        if "RetransSegs" not in parse_protocol_pairs(self.read()).get("Tcp", {}):
            raise MachineRefused("this kernel counts no segments that TCP sends again")

    def make_rows(self, content: bytes, at_ns: int) -> Rows:
        """Return the row."""
        counted = parse_protocol_pairs(content)["Tcp"]["RetransSegs"]
        growth = self._account.advance({"RetransSegs": counted}, at_ns)
        return Rows() if growth is None else Rows.of_one({"segments": growth.by["RetransSegs"]})


class SocketCounts(PolledCollector[Protocols]):
    """net.socket: the sockets of omn's network namespace at each reading; with the key protocol a row for each.

    What they hold in memory, orphans and allocated ones are of every namespace: the kernel keeps one account of each.
    """

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the files; a kernel without IPv6 has one less."""
        self._by_protocol = self.resolved.is_divided_by("protocol")
        six = find_network_file(self, "sockstat6")
        self._files = [self.open_file("/proc/net/sockstat", many_records=True), *([] if six is None else [six])]

    def read(self) -> Protocols:
        """Read every protocol."""
        protocols: dict[str, Mapping[str, int]] = {}
        for file in self._files:
            protocols |= parse_socket_counts(file.read())
        return protocols

    def make_rows(self, content: Protocols, at_ns: int) -> Rows:
        """Return the row of all sockets, or the rows of the protocols, whose sockets are a part of them."""
        if not self._by_protocol:
            return Rows.of_one({"sockets": content["sockets"]["used"]})
        listed = {name: counts for name, counts in content.items() if "inuse" in counts}
        columns: dict[str, list[int | None]] = {
            "sockets": [counts["inuse"] for counts in listed.values()],
            "orphans": [counts.get("orphan") for counts in listed.values()],
            "time_wait": [counts.get("tw") for counts in listed.values()],
            "allocated": [counts.get("alloc") for counts in listed.values()],
            "memory_bytes": [_find_memory_bytes(counts) for counts in listed.values()],
        }
        return Rows({"protocol": list(listed)}, columns)


def _find_memory_bytes(counts: Mapping[str, int]) -> int | None:
    """Find what a protocol's sockets hold: the kernel writes pages, of fragments to be put together bytes."""
    return counts["mem"] * PAGE_BYTES if "mem" in counts else counts.get("memory")
