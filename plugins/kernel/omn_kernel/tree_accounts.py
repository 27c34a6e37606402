"""What the counters of a tree's processes grew by, where those of ended children pass to whoever waited for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs

from omn_kernel.counters import Growth, Misses
from omn_kernel.followed import Followed, Round

Counters = Mapping[str, int]
Process = Followed[Counters]


@attrs.define(eq=False)
class TreeAccounts:
    """The last reading of each process of a tree, of counters that hold those of its waited-for children.

    What a child had counted when it was last read is in rows already. It comes once more as its heir's counters take
    it over, and is taken off there: what is left is what the child did since, beside what the heir did. One that comes
    counts from zero. A counter that steps back makes no row of its process and is counted, as in `Account`.
    """

    misses: Misses
    _last: dict[Process, Counters] = attrs.field(factory=dict)
    _owed: dict[Process, Counter[str]] = attrs.field(factory=dict)
    _read_ns: dict[Process, int] = attrs.field(factory=dict)
    _round_ns: int = 0
    interval_ns: int = 1

    def advance(self, reading: Round[Counters]) -> dict[Process, Growth]:
        """Return what the counters of each process grew by since its last reading."""
        for child, heir in reading.inherited:
            self._inherit(child, heir)
        since_ns, self._round_ns = self._round_ns, max(reading.read_ns, default=self._round_ns)
        self.interval_ns = max(self._round_ns - since_ns, 1)
        grown: dict[Process, Growth] = {}
        for process, counters, at_ns in zip(reading.processes, reading.rows, reading.read_ns, strict=True):
            by = self._advance_one(process, counters)
            if by is not None:
                grown[process] = Growth(max(at_ns - self._read_ns.get(process, since_ns), 1), by)
            self._read_ns[process] = at_ns
        for process in reading.lost:
            for kept in (self._last, self._owed, self._read_ns):
                kept.pop(process, None)
        return grown

    def _inherit(self, child: Process, heir: Process) -> None:
        owed = self._owed.setdefault(heir, Counter())
        self._read_ns.pop(child, None)
        owed.update(self._last.pop(child, {}))
        owed.update(self._owed.pop(child, {}))

    def _advance_one(self, process: Process, counters: Counters) -> Counters | None:
        last = self._last.get(process, dict.fromkeys(counters, 0) if process.came else None)
        self._last[process] = counters
        if last is None:
            return None
        grown = {name: value - last[name] for name, value in counters.items() if name in last}
        backwards = [name for name, value in grown.items() if value < 0]
        if backwards:
            self.misses.note_step_back(", ".join(sorted(backwards)), f"task {process.task}")
            return None
        owed = self._owed.pop(process, None)
        if owed is None:
            return grown
        # What an heir's counters do not hold yet, because they are kept more coarsely, is left for the next reading.
        left = {name: owed[name] - value for name, value in grown.items() if owed[name] > value}
        if left:
            self._owed[process] = Counter(left)
        return {name: max(value - owed[name], 0) for name, value in grown.items()}
