"""net.qdisc: what queueing disciplines sent, dropped and hold, from rtnetlink."""

from __future__ import annotations

import attrs
from omn_kernel.counters import Accounts
from omn_kernel.links import Link, read_links
from omn_kernel.namespaces import open_netlink_socket
from omn_kernel.netlink import ROUTE, NetlinkSocket
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.qdiscs import COUNTERS, WRAPS, Qdisc, read_qdiscs

from omn_core.api import BoundTarget, MachineRefused
from omn_net.interfaces import Interfaces


@attrs.frozen
class Queues:
    """The interfaces that a reading is about, and their disciplines."""

    links: dict[int, Link]
    qdiscs: list[Qdisc]


class QueueCounts(PolledCollector[Queues | None]):
    """A row for each discipline in each interval; one that never had a packet has none, unless its interface is named.

    Without the key `qdisc` those at the root alone: what they hold within them they count too.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Open the socket that lists them."""
        self.interfaces = Interfaces(target, self.resolved, self.context.sysroot, self.misses)
        self._by_qdisc = any(map(self.resolved.is_divided_by, ("qdisc", "kind")))
        self._is_named = target.target.kind == "iface"
        try:
            self._socket = self.hold(NetlinkSocket(open_netlink_socket(self.interfaces.namespace, ROUTE)))
        except OSError as error:
            raise MachineRefused(f"rtnetlink cannot be opened: {error.strerror}") from None
        self._accounts: Accounts[tuple[int, str]] = Accounts(self.misses, self._describe, WRAPS)

    def _describe(self, which: tuple[int, str]) -> str:
        return f"{which[1]} on {self.interfaces.key_of(which[0])}"

    def read(self) -> Queues | None:
        """Read the interfaces and their disciplines; None where the kernel did not list them.

        Raises TargetGone when the interface that the target names is no more.
        """
        try:
            links, qdiscs = read_links(self._socket), read_qdiscs(self._socket)
        except OSError as error:
            self.misses.note(f"the queueing disciplines could not be listed: {error.strerror}")
            return None
        return Queues(self.interfaces.choose(links), qdiscs)

    def make_rows(self, content: Queues | None, at_ns: int) -> Rows:
        """Return the rows of each discipline that has an interval."""
        if content is None:
            return Rows()
        chosen = {(one.index, one.label): one for one in content.qdiscs if self._is_wanted(one, content.links)}
        grown = self._accounts.advance({which: one.counters for which, one in chosen.items()}, at_ns)
        if not grown:
            return Rows()
        listed = [chosen[which] for which in grown]
        columns = {name: [growth.by[name] for growth in grown.values()] for name in COUNTERS}
        keys = {"iface": [self.interfaces.key_of(one.index) for one in listed], "qdisc": [one.label for one in listed]}
        levels = {"queued": [one.queued for one in listed], "backlog_bytes": [one.backlog_bytes for one in listed]}
        named = {"kind": [one.kind for one in listed], "name": [content.links[one.index].name for one in listed]}
        return Rows(keys, {**columns, **levels, **named})

    def _is_wanted(self, qdisc: Qdisc, links: dict[int, Link]) -> bool:
        if qdisc.index not in links or not (self._by_qdisc or qdisc.is_root):
            return False
        return self._is_named or any(qdisc.counters.values()) or qdisc.queued > 0

    def facts(self) -> tuple[str, ...]:
        """Say what the choice of interfaces says."""
        return self.interfaces.facts()
