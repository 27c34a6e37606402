"""net.udp: what each UDP socket had no room for, and what waits in its queues."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import attrs
from omn_kernel.counters import Accounts
from omn_kernel.namespaces import read_own_network
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.sock_diag import MEMORY, SocketTable, compute_drops, read_sockets

from omn_core.api import BoundTarget
from omn_net.process_sockets import FAMILIES, open_sock_diag


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


class UdpSockets(PolledCollector[dict[int, UdpSocket] | None]):
    """A row for each socket of omn's network namespace in each interval. One that was made in it counts from then.

    A socket that is closed takes its last interval with it: where it had dropped before, that is a failed reading.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Open the socket that lists them."""
        self._connection = self.hold(open_sock_diag(read_own_network(self.context.sysroot)))
        self._accounts: Accounts[int] = Accounts(self.misses, lambda cookie: f"socket {cookie}", {"drops": 1 << 32})
        self._last: Mapping[int, UdpSocket] = {}
        self._read_ns: int | None = None

    def read(self) -> dict[int, UdpSocket] | None:
        """List every socket, None where the kernel did not."""
        sockets: dict[int, UdpSocket] = {}
        try:
            for family in FAMILIES:
                table = read_sockets(self._connection, family, socket.IPPROTO_UDP, extension=MEMORY)
                sockets |= list_sockets(table)
        except OSError as error:
            self.misses.note(f"the sockets could not be listed: {error.strerror}")
            return None
        return sockets

    def make_rows(self, content: dict[int, UdpSocket] | None, at_ns: int) -> Rows:
        """Return a row for each socket."""
        if content is None:
            return Rows()
        if not content and self._read_ns is not None and not self.resolved.is_divided_by("sock"):
            self._last, self._read_ns = content, at_ns
            return Rows.of_one({"drops": 0})
        for cookie in self._last.keys() - content.keys():
            if self._last[cookie].drops:
                self.misses.note("a socket was closed, and what it dropped since its last reading is in no row")
        for cookie in content.keys() - self._last.keys() if self._read_ns is not None else ():
            self._accounts.advance_one(cookie, {"drops": 0}, self._read_ns or 0)
        self._last, self._read_ns = content, at_ns
        readings = {cookie: {"drops": one.drops} for cookie, one in content.items() if one.drops is not None}
        grown = self._accounts.advance(readings, at_ns)
        if not grown:
            return Rows()
        listed = [content[cookie] for cookie in grown]
        names = [field.name for field in attrs.fields(UdpSocket) if field.name != "drops"]
        columns = {name: [getattr(one, name) for one in listed] for name in names}
        drops = [growth.by["drops"] for growth in grown.values()]
        return Rows({"sock": list(grown)}, {"drops": drops, **columns})
