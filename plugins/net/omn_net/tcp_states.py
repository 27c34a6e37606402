"""net.tcp.state: how many TCP sockets there are in each state, of a network namespace and of processes."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping

import numpy as np
from omn_kernel.followed import Followed
from omn_kernel.namespaces import read_own_network
from omn_kernel.polling import PolledCollector, Rows
from omn_kernel.procfs.net import parse_tcp_states
from omn_kernel.sock_diag import TCP_STATES, SocketTable, make_state_mask

from omn_core.api import BoundTarget, ResolvedRequest, RunContext
from omn_net.process_sockets import Held, ProcessSockets, open_sock_diag, read_tcp
from omn_net.protocols import find_network_file

NAMES = tuple(dict.fromkeys(TCP_STATES))
"""Each name of a state once."""

_NEVER_HELD = frozenset({"TIME_WAIT", "SYN_RECV"})
"""States of sockets that no process holds: before it is handed one, and after it closed it."""

_ALL = make_state_mask(TCP_STATES)


def count_states(tables: Iterable[SocketTable]) -> dict[str, int]:
    """Count sockets by the name of their state, every name there; a number that this build does not know by itself."""
    counts = dict.fromkeys(NAMES, 0)
    for table in tables:
        for number, count in enumerate(np.bincount(table.states()).tolist()):
            name = TCP_STATES[number - 1] if 1 <= number <= len(TCP_STATES) else f"state {number}"
            if count:
                counts[name] = counts.get(name, 0) + count
    return counts


class TcpStates(PolledCollector[dict[str, int] | None], ABC):
    """A row for each state at each reading where `state` is asked for, else one of all sockets."""

    reads_at_open = True

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Learn whether states are told apart."""
        super().prepare(resolved, context)
        self._by_state = resolved.is_divided_by("state")

    def make_rows(self, content: dict[str, int] | None, at_ns: int) -> Rows:
        """Return the rows; a state in which there is none is a zero."""
        if content is None:
            return Rows()
        if not self._by_state:
            return Rows.of_one({"sockets": sum(content.values())})
        return Rows({"state": list(content)}, {"sockets": list(content.values())})


class ListedStates(TcpStates):
    """Through sock_diag."""

    def open_files(self, target: BoundTarget) -> None:
        """Open the socket that lists them."""
        self._connection = self.hold(open_sock_diag(read_own_network(self.context.sysroot)))

    def read(self) -> dict[str, int] | None:
        """List every socket, None where the kernel did not."""
        try:
            return count_states(read_tcp(self._connection, _ALL, None))
        except OSError as error:
            self.misses.note(f"the sockets could not be listed: {error.strerror}")
            return None


class TableStates(TcpStates):
    """Through /proc/net/tcp and tcp6, a line of text for each socket."""

    def open_files(self, target: BoundTarget) -> None:
        """Open the files; a kernel without IPv6 has one less."""
        names = ("tcp", "tcp6")
        self._files = [file for file in (find_network_file(self, name) for name in names) if file is not None]

    def read(self) -> dict[str, int] | None:
        """Count the lines of each state."""
        counts = dict.fromkeys(NAMES, 0)
        for file in self._files:
            for number, count in parse_tcp_states(file.read()).items():
                counts[TCP_STATES[number - 1]] += count
        return counts


class HeldStates(ProcessSockets):
    """Of the sockets that each process holds; a socket that several hold is counted for each."""

    states = _ALL

    def make_socket_rows(self, found: Mapping[Followed[Held], list[SocketTable]]) -> Rows:
        """Return a row for each process, or for each state that a process's socket can be in."""
        if not self.resolved.is_divided_by("state"):
            keys, named = self.identify(list(found))
            totals = [sum(map(len, tables)) for tables in found.values()]
            return Rows(keys, {"sockets": totals, **named})
        rows = [
            (process, name, count)
            for process, tables in found.items()
            for name, count in count_states(tables).items()
            if name not in _NEVER_HELD
        ]
        processes, names, counts = zip(*rows, strict=True)
        keys, named = self.identify(processes)
        return Rows({**keys, "state": names}, {"sockets": counts, **named})
