"""Address spaces over time: which mapping an address of a process was in when a sample was taken.

Fed from perf records (PERF_RECORD_MMAP2, COMM with the exec flag, FORK) in the order of their time, and from
/proc/<pid>/maps for a process that ran before. Nobody records an munmap: what was mapped stands until something else
does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import attrs
import numpy as np

from omn_kernel.symbols.index import Addresses, Numbers
from omn_kernel.symbols.layout import Layout
from omn_kernel.symbols.mappings import Mapping

MOST_REREADS = 3
"""How often the maps of a process are read again for an address that is in nothing known."""


class Space:
    """The memory of one program in one process, from its fork or exec on."""

    def __init__(self, pid: int, begun_ns: int, before: tuple[Mapping, ...] = ()) -> None:
        self.pid = pid
        self.begun_ns = begun_ns
        self.rereads_left = MOST_REREADS
        self.mappings: list[Mapping] = list(before)
        self._times: list[int] = [begun_ns] * len(before)

    def put_before(self, mappings: tuple[Mapping, ...]) -> None:
        """Put mappings of an unknown age: under every one that a record told of."""
        self.mappings[:0] = mappings
        self._times[:0] = [self.begun_ns] * len(mappings)

    def put(self, mapping: Mapping, ts_ns: int) -> None:
        """Put a mapping made at a time."""
        at = bisect_right(self._times, max(ts_ns, self.begun_ns))
        self.mappings.insert(at, mapping)
        self._times.insert(at, max(ts_ns, self.begun_ns))

    def get_mappings_at(self, ts_ns: int) -> tuple[Mapping, ...]:
        """Return what had been mapped by a time, the oldest first."""
        return tuple(self.mappings[: bisect_right(self._times, ts_ns)])

    def iter_changes(self) -> Iterator[int]:
        """Yield when this memory was another than before: when it began, and when something was mapped."""
        yield self.begun_ns
        yield from self._times

    def iter_puts(self) -> Iterator[tuple[int, Mapping, int]]:
        """Yield the number of each mapping of any size, itself, and when it was made, the oldest first."""
        for number, (mapping, at_ns) in enumerate(zip(self.mappings, self._times, strict=True)):
            if mapping.start < mapping.end:
                yield number, mapping, at_ns

    def find(self, addresses: Addresses, ts_ns: Numbers) -> Numbers:
        """Find the number of the mapping that each address was in at its time, -1 for one in none."""
        if not self.mappings:
            return np.full(len(addresses), -1, np.int64)
        found = self._find_apart(addresses, ts_ns)
        return self._find_in_turn(addresses, ts_ns) if found is None else found

    def _find_apart(self, addresses: Addresses, ts_ns: Numbers) -> Numbers | None:
        """Find them where no mapping ever stood over another, None where one did."""
        start, end = (np.array([getattr(one, side) for one in self.mappings], np.uint64) for side in ("start", "end"))
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        if (start[1:] < end[:-1]).any() or (start >= end).any():
            return None
        at = np.searchsorted(start, addresses, side="right") - 1
        made = np.array(self._times, np.int64)[order][at] <= np.maximum(ts_ns, self.begun_ns)
        return np.where((at >= 0) & (addresses < end[at]) & made, order[at], -1)

    def _find_in_turn(self, addresses: Addresses, ts_ns: Numbers) -> Numbers:
        """Find them as mappings came one over another."""
        found = np.full(len(addresses), -1, np.int64)
        order = np.argsort(ts_ns, kind="stable")
        # How many mappings had been made by each sample's time: samples between two of them see one layout.
        made = np.searchsorted(np.array(self._times, np.int64), np.maximum(ts_ns[order], self.begun_ns), side="right")
        changes = np.flatnonzero(np.diff(made, prepend=-1))
        layout, put = Layout(), 0
        for low, high in zip(changes.tolist(), [*changes[1:].tolist(), len(made)], strict=True):
            for number in range(put, put := int(made[low])):
                mapping = self.mappings[number]
                if mapping.start < mapping.end:
                    layout.put(mapping.start, mapping.end, number)
            chosen = order[low:high]
            found[chosen] = layout.find(addresses[chosen])
        return found


class AddressSpaces:
    """The spaces of every process heard of. Records are noted in the order of their time."""

    def __init__(self) -> None:
        self._spaces: dict[int, list[Space]] = {}
        self._fresh: list[tuple[int, Mapping]] = []

    def note_mapping(self, pid: int, mapping: Mapping, ts_ns: int) -> None:
        """Note that a process mapped executable memory at a time. A record carries a file's inode or its build id."""
        mapped = attrs.evolve(mapping, mapped_ns=ts_ns)
        self._get_space(pid, ts_ns).put(mapped, ts_ns)
        self._fresh.append((pid, mapped))

    def note_exec(self, pid: int, ts_ns: int) -> None:
        """Note that a process executes another program: nothing that it mapped before is there."""
        self._spaces.setdefault(pid, []).append(Space(pid, ts_ns))

    def note_fork(self, parent: int, child: int, ts_ns: int) -> None:
        """Note that a process forked: its child has what it had mapped. A thread that starts is none."""
        if parent != child:
            space = self.find_space(parent, ts_ns)
            before = () if space is None else space.get_mappings_at(ts_ns)
            self._spaces.setdefault(child, []).append(Space(child, ts_ns, before))

    def note_running(self, pid: int, mappings: tuple[Mapping, ...], ts_ns: int) -> None:
        """Note what a process that runs has mapped, as /proc/<pid>/maps tells it: mapped who knows when."""
        self._get_space(pid, ts_ns).put_before(mappings)
        self._fresh += [(pid, mapping) for mapping in mappings]

    def take_fresh(self) -> list[tuple[int, Mapping]]:
        """Return what was mapped, and by whom, since this was last asked."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def find_space(self, pid: int, ts_ns: int) -> Space | None:
        """Find the space that a process had at a time; its first one where the time is before it."""
        spaces = self._spaces.get(pid)
        if not spaces:
            return None
        return spaces[max(bisect_right([one.begun_ns for one in spaces], ts_ns) - 1, 0)]

    def get_spaces(self, pid: int) -> list[Space]:
        """Return a process's spaces in the order of time, none for one that nothing was heard of."""
        return self._spaces.get(pid, [])

    def find_ages(self, pid: int, ts_ns: Numbers) -> Numbers:
        """Find how often what a process had mapped had changed by some times: those of one age saw the same memory."""
        changes = sorted(at_ns for space in self.get_spaces(pid) for at_ns in space.iter_changes())
        return np.searchsorted(np.array(changes, np.int64), ts_ns, side="right").astype(np.int64)

    def is_last(self, space: Space) -> bool:
        """Tell whether a space is the last of its process that was heard of."""
        return self._spaces[space.pid][-1] is space

    def _get_space(self, pid: int, ts_ns: int) -> Space:
        space = self.find_space(pid, ts_ns)
        if space is None:
            # The first word of a process says nothing of when it began.
            space = Space(pid, 0)
            self._spaces[pid] = [space]
        return space
