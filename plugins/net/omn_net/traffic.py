"""net.bytes, net.packets, net.errors: what interfaces moved and lost, in each direction."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from omn_kernel.polling import Rows

from omn_core.api import BoundTarget
from omn_net.interfaces import InterfaceCollector, Moved

DIRECTIONS = ("rx", "tx")


class Traffic(InterfaceCollector, ABC):
    """A row for each interface in each interval, or for each direction of each where `dir` is asked for.

    `amounts` names each amount and the kernel's two counters of it, received first; `received` what is counted beside
    them on the receiving side alone, and its counter. The undivided row holds the sum of both directions, and each.
    """

    amounts: tuple[tuple[str, str, str], ...]
    received: tuple[tuple[str, str], ...] = ()

    def open_files(self, target: BoundTarget) -> None:
        """Open the reader."""
        self.counters = tuple(counter for _, *counters in (*self.amounts, *self.received) for counter in counters)
        super().open_files(target)
        self._by_direction = self.resolved.is_divided_by("dir")

    def make_moved_rows(self, moved: list[Moved]) -> Rows:
        """Return the rows; what a kernel does not count is absent."""
        return self._make_directed_rows(moved) if self._by_direction else self._make_whole_rows(moved)

    def _make_whole_rows(self, moved: list[Moved]) -> Rows:
        columns: dict[str, Sequence[int | str | None]] = {}
        for amount, *pair in self.amounts:
            parts = [[row.growth.by.get(counter) for row in moved] for counter in pair]
            columns[amount] = [None if None in both else sum(filter(None, both)) for both in zip(*parts, strict=True)]
            columns |= {f"{way}_{amount}": part for way, part in zip(DIRECTIONS, parts, strict=True)}
        for name, counter in self.received:
            columns[name] = [row.growth.by.get(counter) for row in moved]
        return Rows({"iface": self._make_keys(moved)}, self._name(moved, columns))

    def _make_directed_rows(self, moved: list[Moved]) -> Rows:
        twice = [row for row in moved for _ in DIRECTIONS]
        columns: dict[str, Sequence[int | str | None]] = {
            amount: [row.growth.by.get(counter) for row in moved for counter in pair] for amount, *pair in self.amounts
        }
        for name, counter in self.received:
            columns[name] = [value for row in moved for value in (row.growth.by.get(counter), None)]
        keys = {"iface": self._make_keys(twice), "dir": DIRECTIONS * len(moved)}
        return Rows(keys, self._name(twice, columns))

    def _make_keys(self, moved: Sequence[Moved]) -> list[str]:
        return [self.interfaces.key_of(row.link.index) for row in moved]

    def _name(
        self, moved: Sequence[Moved], columns: Mapping[str, Sequence[int | str | None]]
    ) -> dict[str, Sequence[int | str | None]]:
        """Add the interfaces' names, and leave out what no row has."""
        known = {name: column for name, column in columns.items() if any(value is not None for value in column)}
        return {**known, "name": [row.link.name for row in moved]}


class Bytes(Traffic):
    """net.bytes: of whole frames, as the interface's driver counts them."""

    amounts = (("bytes", "rx_bytes", "tx_bytes"),)


class Packets(Traffic):
    """net.packets: frames as they passed the driver, those that were merged or are yet to be split as one."""

    amounts = (("packets", "rx_packets", "tx_packets"),)
    received = (("multicast", "multicast"),)


class Errors(Traffic):
    """net.errors: frames that were bad, and beside them, never in one sum, those that were good and dropped."""

    amounts = (("errors", "rx_errors", "tx_errors"), ("drops", "rx_dropped", "tx_dropped"))
    received = (("missed", "rx_missed_errors"),)
