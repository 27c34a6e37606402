"""net.udp: what each UDP socket had no room for, and what waits in its queues."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import attrs
from omn_kernel.counters import Accounts
from omn_kernel.namespaces import read_own_network
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.net import parse_protocol6, parse_protocol_pairs
from omn_kernel.sock_diag import MEMORY, SocketTable, compute_drops, read_sockets

from omn_core.api import BoundTarget
from omn_net.process_sockets import FAMILIES, open_sock_diag
from omn_net.protocols import find_network_file

_FULL = ("RcvbufErrors", "MemErrors")


@attrs.define(eq=False)
class UdpSocket:
    """One socket at one reading. `drops` is what it ever dropped, None on kernels before 4.9."""

    local_address: str
    local_port: int
    remote_address: str
    remote_port: int
    rx_queue_bytes: int
    tx_queue_bytes: int
    drops: int | None


def list_sockets(table: SocketTable) -> dict[int, UdpSocket]:
    """List the sockets of a table that was read with `MEMORY`, by their cookies."""
    received, sent = table.queued()
    columns = zip(
        table.cookies().tolist(),
        table.list_addresses(),
        table.local_ports().tolist(),
        table.list_addresses(is_remote=True),
        table.remote_ports().tolist(),
        received.tolist(),
        sent.tolist(),
        compute_drops(table).tolist(),
        strict=True,
    )
    return {
        cookie: UdpSocket(local, port, remote, other, rx, tx, None if drops < 0 else drops)
        for cookie, local, port, remote, other, rx, tx, drops in columns
    }


def parse_full_queues(content: bytes, content6: bytes) -> int:
    """Parse how many datagrams found no room in a queue, of snmp and snmp6: each of them some socket dropped.

    Other errors (a wrong checksum) may be of a datagram that found no socket.
    """
    protocols = parse_protocol_pairs(content) | parse_protocol6(content6)
    counted = (protocols.get(protocol, {}).get(name, 0) for protocol in ("Udp", "Udp6") for name in _FULL)
    return sum(counted)


@attrs.define(eq=False)
class Whole:
    """What the machine counted of full queues since the first reading, held against what the rows hold.

    `missing` datagrams at least are in no row, because the socket that dropped them came and went between readings.
    """

    begun: int
    in_rows: int = 0
    missing: int = 0

    def advance(self, counted: int, in_rows: int) -> bool:
        """Take a reading in: the counters, read before the sockets were, and their rows' drops. True if more miss."""
        self.in_rows += in_rows
        before, self.missing = self.missing, max(counted - self.begun - self.in_rows, self.missing)
        return self.missing > before


class UdpSockets(PolledCollector[dict[int, UdpSocket] | None]):
    """A row for each socket of omn's network namespace in each interval. One that was made in it counts from then.

    A socket that is closed takes its last interval with it: where it had dropped before, that is a failed reading, and
    so it is where the machine counted more datagrams without room than the rows hold.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Open the socket that lists them."""
        self._connection = self.hold(open_sock_diag(read_own_network(self.context.sysroot)))
        self._accounts: Accounts[int] = Accounts(self.misses, lambda cookie: f"socket {cookie}", {"drops": 1 << 32})
        self._last: Mapping[int, UdpSocket] = {}
        self._read_ns: int | None = None
        self._counters = [find_network_file(self, name) for name in ("snmp", "snmp6")]
        self._whole: Whole | None = None
        self._counted = 0

    def read(self) -> dict[int, UdpSocket] | None:
        """List every socket, None where the kernel did not."""
        sockets: dict[int, UdpSocket] = {}
        # Before the sockets, and at first after them: what is dropped meanwhile can only make less seem missing.
        self._counted = self._read_full_queues()
        try:
            for family in FAMILIES:
                table = read_sockets(self._connection, family, socket.IPPROTO_UDP, extension=MEMORY)
                sockets |= list_sockets(table)
        except OSError as error:
            self.misses.note(f"the sockets could not be listed: {error.strerror}")
            return None
        if self._whole is None:
            self._whole = Whole(self._read_full_queues())
        return sockets

    def _read_full_queues(self) -> int:
        return parse_full_queues(*(b"" if file is None else file.read() for file in self._counters))

    def fields(self) -> Mapping[str, int]:
        """Return `missing_drops`: at least so many datagrams that sockets dropped are in no row."""
        return {"missing_drops": 0 if self._whole is None else self._whole.missing}

    def make_rows(self, content: dict[int, UdpSocket] | None, at_ns: int) -> Rows:
        """Return a row for each socket."""
        if content is None:
            return Rows()
        is_first, closed = self._read_ns is None, self._note_closed(content)
        drops = self._advance(content, at_ns)
        if self._whole is not None and self._whole.advance(self._counted, sum(drops.values())) and not closed:
            self.misses.note("sockets came and went between two readings, and what they dropped is in no row")
        if drops:
            listed = [content[cookie] for cookie in drops]
            names = [field.name for field in attrs.fields(UdpSocket) if field.name != "drops"]
            columns = {name: [getattr(one, name) for one in listed] for name in names}
            return Rows({"sock": list(drops)}, {"drops": list(drops.values()), **columns})
        if content or is_first or self.resolved.is_divided_by("sock"):
            return Rows()
        return Rows.of_one({"drops": 0})

    def _note_closed(self, content: Mapping[int, UdpSocket]) -> bool:
        """Count each socket that was closed and had dropped before, and tell whether there was one."""
        closed = [cookie for cookie in self._last.keys() - content.keys() if self._last[cookie].drops]
        for _ in closed:
            self.misses.note("a socket was closed, and what it dropped since its last reading is in no row")
        return bool(closed)

    def _advance(self, content: Mapping[int, UdpSocket], at_ns: int) -> dict[int, int]:
        """Return what each socket dropped since the last reading; one that came in it began with nothing."""
        for cookie in content.keys() - self._last.keys() if self._read_ns is not None else ():
            self._accounts.advance_one(cookie, {"drops": 0}, self._read_ns or 0)
        self._last, self._read_ns = content, at_ns
        readings = {cookie: {"drops": one.drops} for cookie, one in content.items() if one.drops is not None}
        return {cookie: growth.by["drops"] for cookie, growth in self._accounts.advance(readings, at_ns).items()}
