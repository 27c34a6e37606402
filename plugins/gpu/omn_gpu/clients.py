"""What programs hold and use of the cards of the kernel's own drivers, by the accounts of their open files."""

from __future__ import annotations

import os
from abc import ABC
from collections.abc import Iterable, Mapping

import attrs
from omn_kernel.polled import place
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.process import ProcessGone, find_comm
from omn_kernel.procfs.tree import ProcessTree

from omn_core.api import BoundTarget, MachineRefused, TargetGone
from omn_gpu.device import NVIDIA, Device
from omn_gpu.devices import list_devices
from omn_gpu.fdinfo import Client, merge_clients, read_clients

Clients = Mapping[int, list[Client]]
"""The clients of each process, by its number."""


class ClientCollector(PolledCollector[Clients], ABC):
    """A collector that reads the open files of processes and tells cards by their addresses."""

    def open_files(self, target: BoundTarget) -> None:
        """Number the cards."""
        devices, _ = list_devices(self.context.sysroot)
        self.cards: dict[str, Device] = {device.pci: device for device in devices if device.driver != NVIDIA}

    def read_all(self, pids: Iterable[int]) -> dict[int, list[Client]]:
        """Read the clients of some processes on the cards; one that has ended, or is closed to this user, has none."""
        found: dict[int, list[Client]] = {}
        for pid in pids:
            try:
                clients = read_clients(self.context.sysroot, pid)
            except ProcessGone:
                continue
            except MachineRefused as refused:
                self.note_closed(refused)
                continue
            found[pid] = [client for client in clients if client.pci in self.cards]
        return found

    def note_closed(self, refused: MachineRefused) -> None:
        """Count a process whose descriptors are closed to this user."""
        self.misses.note(refused.reason)


class TreeClients(ClientCollector, ABC):
    """A collector of the clients of a tree of processes, found anew at each reading."""

    def open_files(self, target: BoundTarget) -> None:
        """Find the tree. Raises MachineRefused where the target's own descriptors are closed to this user."""
        super().open_files(target)
        self._tree = self.hold(ProcessTree(self.context.sysroot, target.processes, target.find_orphans))
        for process in () if target.launched else target.processes:
            try:
                read_clients(self.context.sysroot, process.pid)
            except ProcessGone as gone:
                raise MachineRefused(str(gone)) from None

    def read(self) -> Clients:
        """Read the tree's clients. Raises TargetGone when no process of it is left."""
        members = self._tree.find_members()
        if not members:
            raise TargetGone
        return self.read_all(sorted(members))


class TreeMemory(TreeClients):
    """gpu.mem of a program: a row of what its clients hold together, or one for each card, or for each process."""

    reads_at_open = True

    def make_rows(self, content: Clients, at_ns: int) -> Rows:
        """Return the rows. A program that has no card open holds nothing of any."""
        if self.resolved.is_divided_by("task"):
            parts = [
                (self.cards[pci].index, pid, held)
                for pid, clients in content.items()
                for pci, held in _by_card(clients).items()
            ]
            keys = {"gpu": [index for index, _, _ in parts], "task": [pid for _, pid, _ in parts]}
            return Rows(keys, _make_columns([held for _, _, held in parts])) if parts else Rows()
        held = _by_card(client for clients in content.values() for client in clients)
        if self.resolved.is_divided_by("gpu"):
            per_card = [held.get(pci, []) for pci in self.cards]
            return Rows({"gpu": [card.index for card in self.cards.values()]}, _make_columns(per_card))
        return Rows({}, _make_columns([[client for clients in held.values() for client in clients]]))


def _by_card(clients: Iterable[Client]) -> dict[str, list[Client]]:
    cards: dict[str, list[Client]] = {}
    for client in merge_clients(clients).values():
        cards.setdefault(client.pci, []).append(client)
    return cards


def _make_columns(rows: list[list[Client]]) -> dict[str, list[int]]:
    return {
        "bytes": [sum(client.own_bytes for client in clients) for clients in rows],
        "system_bytes": [sum(client.system_bytes for client in clients) for clients in rows],
    }


@attrs.frozen
class Work:
    """What an engine did for a client so far: nanoseconds, or cycles beside all that passed; never less than before."""

    busy: int
    total_cycles: int | None


class TreeUse(TreeClients):
    """gpu.util of a program: the share of each card's engines that its clients had, the busiest where none is divided.

    A client that comes in the window counts from its opening where its driver counts time, and from its first reading
    where it counts cycles. Drivers may state less than before for a moment: the larger figure stands.
    """

    def open_files(self, target: BoundTarget) -> None:
        """Find the tree; nothing was seen before."""
        super().open_files(target)
        self._seen: dict[tuple[str, int, str], Work] = {}
        self._read_ns: int | None = None

    def make_rows(self, content: Clients, at_ns: int) -> Rows:
        """Return the rows of the interval that ends here."""
        then_ns, self._read_ns = self._read_ns, at_ns
        length_ns = at_ns - then_ns if then_ns is not None else 0
        shares: dict[tuple[int, str], float] = {(card.index, ""): 0.0 for card in self.cards.values()}
        for client in merge_clients(client for clients in content.values() for client in clients).values():
            for engine in client.busy:
                share = self._advance(client, engine, length_ns)
                place = (self.cards[client.pci].index, engine)
                if share is not None:
                    shares[place] = shares.get(place, 0.0) + share / client.capacity.get(engine, 1)
        if not length_ns:
            return Rows()
        rows = self._choose(shares)
        engines = {"gpu.engine": [engine for (_, engine), _ in rows]} if all(engine for (_, engine), _ in rows) else {}
        return (
            Rows(
                {"gpu": [index for (index, _), _ in rows], **engines},
                {"util": [min(share, 1.0) for _, share in rows], "interval_ns": [length_ns] * len(rows)},
            )
            if rows
            else Rows()
        )

    def _choose(self, shares: Mapping[tuple[int, str], float]) -> list[tuple[tuple[int, str], float]]:
        """Choose the rows: every engine, the busiest of each card, or the busiest of all."""
        if self.resolved.is_divided_by("gpu.engine"):
            return [row for row in shares.items() if row[0][1]]
        if not self.resolved.is_divided_by("gpu"):
            return [max(shares.items(), key=lambda row: row[1])] if shares else []
        busiest: dict[int, tuple[tuple[int, str], float]] = {}
        for row in shares.items():
            index = row[0][0]
            busiest[index] = max(busiest.get(index, row), row, key=lambda one: one[1])
        return list(busiest.values())

    def _advance(self, client: Client, engine: str, length_ns: int) -> float | None:
        """Return the share of an engine that a client had in the interval; None where it has no beginning."""
        key = (client.pci, client.number, engine)
        last = self._seen.get(key)
        total = client.total_cycles.get(engine)
        now = Work(max(client.busy[engine], last.busy if last else 0), total)
        self._seen[key] = now
        if not length_ns:
            return None
        if total is None:
            return (now.busy - (last.busy if last else 0)) / length_ns
        if last is None or last.total_cycles is None or total <= last.total_cycles:
            return None
        return (now.busy - last.busy) / (total - last.total_cycles)


class CardProcesses(ClientCollector):
    """gpu.processes: which processes have a card open; those of other users take CAP_SYS_PTRACE, and are counted."""

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Number the cards, and keep the one that is named. Raises MachineRefused where it is no card of DRM."""
        super().open_files(target)
        named = target.place
        if isinstance(named, Device):
            if named.pci not in self.cards:
                raise MachineRefused(
                    f"{named} is of the driver {named.driver}, which {self.resolved.backend.id} does not read"
                )
            self.cards = {named.pci: named}
        divides = any(self.resolved.is_divided_by(name) for name in ("task", "comm", "pid"))
        self._lists = self.resolved.mode == "snapshot" or divides
        self._unseen = 0

    def read(self) -> Clients:
        """Read the clients of every process of the machine."""
        self._unseen = 0
        pids = [int(name) for name in os.listdir(place(self.context.sysroot, "/proc")) if name.isdigit()]
        return {pid: clients for pid, clients in self.read_all(sorted(pids)).items() if clients}

    def note_closed(self, refused: MachineRefused) -> None:
        """Count a process that this user may not look into: it is no failure of the reading."""
        self._unseen += 1

    def make_rows(self, content: Clients, at_ns: int) -> Rows:
        """Return the rows."""
        held = [(pid, pci, clients) for pid, all_of in content.items() for pci, clients in _by_card(all_of).items()]
        if not self._lists:
            counts = [sum(1 for _, found, _ in held if found == pci) for pci in self.cards]
            return Rows({"gpu": [card.index for card in self.cards.values()]}, {"processes": counts})
        if not held:
            return Rows()
        columns = _make_columns([clients for _, _, clients in held])
        return Rows(
            {"gpu": [self.cards[pci].index for _, pci, _ in held], "task": [pid for pid, _, _ in held]},
            {
                "processes": [1] * len(held),
                "bytes": columns["bytes"],
                "pid": [pid for pid, _, _ in held],
                "comm": [find_comm(self.context.sysroot, pid) for pid, _, _ in held],
            },
        )

    def fields(self) -> Mapping[str, int]:
        """Return how many processes could not be looked into at the last reading."""
        return {"processes_unseen": self._unseen} if self._unseen else {}
