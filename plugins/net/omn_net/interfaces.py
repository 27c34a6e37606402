"""Which interfaces a request is about, and what their counters grew by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import attrs
from omn_kernel.counters import Accounts, Growth, Misses
from omn_kernel.interfaces import Interface
from omn_kernel.links import Link
from omn_kernel.namespaces import NetworkNamespace, read_own_network
from omn_kernel.polling import PolledCollector, Rows

from omn_core.api import BoundTarget, ResolvedRequest, TargetGone
from omn_net.link_readers import open_links


def explain_omission(link: Link, links: Mapping[int, Link]) -> str | None:
    """Tell why an interface is left out of its namespace's one figure, None where it is in it.

    The figure is of interfaces that lead out of the namespace: those of hardware and, where there are none, as in a
    container, those whose other end is in another namespace. What the others move is counted there once more (a vlan,
    a bond, a bridge, a tunnel, a container's veth) or never leaves (the loopback, a pair with both ends here).
    """
    if link.is_loopback:
        return "what it moves never leaves the machine"
    if not _is_hardware(link):
        has_hardware = any(map(_is_hardware, links.values()))
        if link.is_lower_elsewhere and not has_hardware:
            return None
        return f"it is made of software ({link.kind}), and what it moves is counted where it leaves, if it does"
    whole = links.get(link.master or 0)
    return f"it is a part of {whole.name}" if whole is not None and whole.kind is None else None


def _is_hardware(link: Link) -> bool:
    return not link.is_loopback and link.lower is None and (link.kind is None or link.has_device)


class Interfaces:
    """The interfaces of a target: the one that it names, or those of the network namespace that omn is in.

    Where no figure is divided by interface, those that do not lead out of the namespace are left out, and named where
    they moved something. Where an emit alone divides one, they are in the figures beside it too, and named. What came,
    went and was renamed is said in `facts`.
    """

    def __init__(self, target: BoundTarget, resolved: ResolvedRequest, sysroot: str, misses: Misses) -> None:
        self._named = target.place if isinstance(target.place, Interface) else None
        self.namespace: NetworkNamespace = self._named.namespace if self._named else read_own_network(sysroot)
        self.is_divided = self._named is not None or any(map(resolved.is_divided_by, ("iface", "name")))
        self._misses = misses
        self._last: Mapping[int, Link] | None = None
        self._is_picked = bool({"iface", "name"} & {*resolved.keys, *resolved.filter_fields})
        self._first: dict[int, Link] = {}
        self._names: dict[int, str] = {}
        self._facts: dict[str, None] = {}

    def choose(self, links: Mapping[int, Link]) -> dict[int, Link]:
        """Return the interfaces that a reading is about. Raises TargetGone when the one that is named is no more."""
        if self._named is not None and self._named.index not in links:
            raise TargetGone
        chosen = {index: link for index, link in links.items() if self._is_wanted(link, links)}
        if self._last is not None:
            self._note_changes(self._last, links, chosen)
        for link in (link for link in chosen.values() if self.has_rows(link)):
            before = self._names.get(link.index, link.name)
            if before != link.name:
                self._facts[f"{before} was renamed {link.name} in the window"] = None
            self._names[link.index] = link.name
        self._last = chosen
        return chosen

    def has_rows(self, link: Link) -> bool:
        """Tell whether an interface has rows: of the machine, one that did nothing since it was made has none."""
        return self._named is not None or link.has_moved

    def key_of(self, index: int) -> str:
        """Return the key of an interface: its namespace's inode, and its index, which outlives its name."""
        return f"{self.namespace.inode}:{index}"

    def facts(self) -> tuple[str, ...]:
        """Say which interface each key is, by its newest name, and what came, went, was renamed and was left out."""
        named = ", ".join(f"{self.key_of(index)} is {name}" for index, name in sorted(self._names.items()))
        return (f"interfaces: {named}", *self._facts) if named else tuple(self._facts)

    def _is_wanted(self, link: Link, links: Mapping[int, Link]) -> bool:
        if self._named is not None:
            return link.index == self._named.index
        reason = None if self._is_picked else explain_omission(link, links)
        if reason is not None and self._first.setdefault(link.index, link).counters != link.counters:
            place = "in the figures beside the others" if self.is_divided else "left out of the figure"
            self._facts[f"{link.name} is {place}: {reason}"] = None
        return reason is None or self.is_divided

    def _note_changes(self, last: Mapping[int, Link], links: Mapping[int, Link], chosen: Mapping[int, Link]) -> None:
        """Say what came and went, and count what is in no row: before a first reading, and after a last one.

        One that comes may have been moved here from another namespace, its counters with it: they are no growth.
        """
        for link in (link for index, link in chosen.items() if index not in last):
            self._facts[f"{link.name} came in the window, and counts from its first reading"] = None
            if link.has_moved:
                self._misses.note(f"{link.name} came, and what it did before its first reading is in no row")
        for link in (link for index, link in last.items() if index not in links):
            self._facts[f"{link.name} went away in the window"] = None
            if link.has_moved:
                self._misses.note(f"{link.name} went away, and what it did since its last reading is in no row")


@attrs.frozen
class Moved:
    """What an interface's counters grew by in an interval."""

    link: Link
    growth: Growth


class InterfaceCollector(PolledCollector[dict[int, Link] | None], ABC):
    """A collector of what interfaces did in each interval: a subclass makes rows of what their counters grew by."""

    counters: tuple[str, ...]

    def open_files(self, target: BoundTarget) -> None:
        """Open the reader of the backend, and an account for each interface."""
        self.interfaces = Interfaces(target, self.resolved, self.context.sysroot, self.misses)
        self._links = self.hold(open_links(self.resolved.backend.id, self.interfaces.namespace, self.counters))
        self._accounts: Accounts[int] = Accounts(self.misses, self.interfaces.key_of)
        self._is_begun = False

    def read(self) -> dict[int, Link] | None:
        """Read every interface of the namespace and choose; None where the kernel did not list them.

        Raises TargetGone when the one that the target names is no more.
        """
        try:
            links = self._links.read()
        except OSError as error:
            self.misses.note(f"the interfaces could not be listed: {error.strerror}")
            return None
        return self.interfaces.choose(links)

    def make_rows(self, content: dict[int, Link] | None, at_ns: int) -> Rows:
        """Return the rows of every interface that has an interval; a zero where nothing that leads out ever moved."""
        if content is None:
            return Rows()
        readings = {
            index: {name: link.counters[name] for name in self.counters if name in link.counters}
            for index, link in content.items()
        }
        grown = self._accounts.advance(readings, at_ns)
        shown = [index for index, link in content.items() if self.interfaces.has_rows(link)]
        is_baseline, self._is_begun = not self._is_begun, True
        if not (shown or is_baseline or self.interfaces.is_divided):
            return Rows.of_one({self.resolved.value: 0})
        moved = [Moved(content[index], grown[index]) for index in shown if index in grown]
        return self.make_moved_rows(moved) if moved else Rows()

    @abstractmethod
    def make_moved_rows(self, moved: list[Moved]) -> Rows:
        """Make rows of what each interface did, never of nothing."""

    def facts(self) -> tuple[str, ...]:
        """Say what the choice of interfaces says."""
        return self.interfaces.facts()
