"""net.iface through ethtool: what interfaces' drivers count under names of their own."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from omn_kernel.counters import Accounts
from omn_kernel.ethtool import read_driver_counters
from omn_kernel.links import Link
from omn_kernel.namespaces import run_in_network
from omn_kernel.polling import PolledCollector, Rows

from omn_core.api import BoundTarget, ResolvedRequest, RunContext
from omn_net.counter_rows import check_divided
from omn_net.interfaces import Interfaces
from omn_net.link_readers import NetlinkLinks

Readings = dict[int, Mapping[str, int]]


class DriverCounters(PolledCollector[Readings | None]):
    """A row for each interface and counter of its driver that moved in the interval."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Refuse a figure that adds counters up."""
        check_divided(resolved)
        super().prepare(resolved, context)

    def open_files(self, target: BoundTarget) -> None:
        """Open the socket that is asked, and the one that lists interfaces."""
        self.interfaces = Interfaces(target, self.resolved, self.context.sysroot, self.misses)
        namespace = self.interfaces.namespace
        self._links = self.hold(NetlinkLinks(namespace))
        self._socket = self.hold(run_in_network(namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
        self._accounts: Accounts[tuple[int, str]] = Accounts(self.misses, lambda one: f"{one[1]} of interface {one[0]}")
        self._chosen: Mapping[int, Link] = {}

    def read(self) -> Readings | None:
        """Ask the driver of each interface, None where the kernel did not list them.

        Raises TargetGone when the interface that the target names is no more.
        """
        try:
            links = self._links.read()
        except OSError as error:
            self.misses.note(f"the interfaces could not be listed: {error.strerror}")
            return None
        self._chosen = self.interfaces.choose(links)
        return {index: self._read_one(link.name) for index, link in self._chosen.items()}

    def _read_one(self, name: str) -> Mapping[str, int]:
        try:
            return read_driver_counters(self._socket, name)
        except OSError as error:
            self.misses.note(f"the driver of {name} could not be asked: {error.strerror}")
            return {}

    def make_rows(self, content: Readings | None, at_ns: int) -> Rows:
        """Return the rows of what moved; each counter is an account of its own, because some are levels."""
        if content is None:
            return Rows()
        readings = {(index, name): {name: value} for index, said in content.items() for name, value in said.items()}
        grown = self._accounts.advance(readings, at_ns)
        rows = [(*which, growth.by[which[1]]) for which, growth in grown.items() if growth.by[which[1]]]
        if not rows:
            return Rows()
        indexes, names, amounts = zip(*rows, strict=True)
        keys = {"iface": [self.interfaces.key_of(index) for index in indexes], "counter": names}
        return Rows(keys, {"failures": amounts, "name": [self._chosen[index].name for index in indexes]})

    def facts(self) -> tuple[str, ...]:
        """Say what the choice of interfaces says."""
        return self.interfaces.facts()
