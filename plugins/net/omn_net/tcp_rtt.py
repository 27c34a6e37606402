"""net.tcp.rtt: what TCP holds a round trip to take on each connection, of a network namespace and of processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from omn_kernel.followed import Followed
from omn_kernel.namespaces import read_own_network
from omn_kernel.polling import Columns, PolledCollector, Rows
from omn_kernel.sock_diag import CONNECTED, INFO, TCP_STATES, SocketTable, compute_round_trips, make_state_mask

from omn_core.api import BoundTarget, Column, Names, ResolvedRequest
from omn_net.process_sockets import Held, ProcessSockets, open_sock_diag, read_tcp

_STATES = make_state_mask(CONNECTED)
_ENDS = ("local_address", "local_port", "remote_address", "remote_port", "state")


def keep_measured(tables: Sequence[SocketTable]) -> list[SocketTable]:
    """Keep the connections of which a round trip was measured."""
    return [table.select(compute_round_trips(table).is_measured) for table in tables]


def make_columns(tables: Sequence[SocketTable], resolved: ResolvedRequest, names: Names) -> tuple[Columns, Columns]:
    """Make the keys and the attributes of connections, those of their ends where the answer can show them."""
    trips = [compute_round_trips(table) for table in tables]
    attributes: dict[str, Sequence[Any] | Column] = {
        "rtt_ns": Column(np.concatenate([one.rtt_ns for one in trips])),
        "rttvar_ns": Column(np.concatenate([one.rttvar_ns for one in trips])),
        "min_rtt_ns": Column(
            np.concatenate([one.min_rtt_ns for one in trips]), np.concatenate([one.has_least for one in trips])
        ),
        "retransmits": Column(np.concatenate([one.retransmits for one in trips])),
    }
    shown = {
        name: [one for table in tables for one in _list_end(table, name)] for name in _ENDS if resolved.shows(name)
    }
    attributes |= {name: Column.of(values, names) for name, values in shown.items()}
    return {"sock": Column(np.concatenate([table.cookies() for table in tables]))}, attributes


def _list_end(table: SocketTable, name: str) -> list[Any]:
    if name.endswith("_address"):
        return table.list_addresses(is_remote=name.startswith("remote"))
    if name == "state":
        return [TCP_STATES[number - 1] for number in table.states().tolist()]
    ports = table.remote_ports() if name.startswith("remote") else table.local_ports()
    return list(ports.tolist())


class ListedRoundTrips(PolledCollector[list[SocketTable]]):
    """A row for each connection of omn's network namespace at each reading."""

    reads_at_open = True

    def open_files(self, target: BoundTarget) -> None:
        """Open the socket that lists them."""
        self._connection = self.hold(open_sock_diag(read_own_network(self.context.sysroot)))

    def read(self) -> list[SocketTable]:
        """List every connection, none where the kernel did not."""
        try:
            return read_tcp(self._connection, _STATES, INFO)
        except OSError as error:
            self.misses.note(f"the sockets could not be listed: {error.strerror}")
            return []

    def make_rows(self, content: list[SocketTable], at_ns: int) -> Rows:
        """Return the rows."""
        tables = keep_measured(content)
        if not any(map(len, tables)):
            return Rows()
        return Rows(*make_columns(tables, self.resolved, self.context.names))


class HeldRoundTrips(ProcessSockets):
    """A row for each connection that a process holds; one that several hold has a row for each."""

    states = _STATES
    extension = INFO

    def make_socket_rows(self, found: Mapping[Followed[Held], list[SocketTable]]) -> Rows:
        """Return the rows."""
        kept = {process: keep_measured(tables) for process, tables in found.items()}
        owners = [process for process, tables in kept.items() for _ in range(sum(map(len, tables)))]
        if not owners:
            return Rows()
        tables = [table for tables in kept.values() for table in tables]
        keys, attributes = make_columns(tables, self.resolved, self.context.names)
        whose, named = self.identify(owners)
        return Rows({**whose, **keys}, {**attributes, **named})
