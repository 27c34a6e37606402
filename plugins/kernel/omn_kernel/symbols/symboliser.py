"""Names for many addresses at once: each mapping's object is read once, each address in it looked up once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.polled import place
from omn_kernel.symbols.choice import NameSources
from omn_kernel.symbols.frames import ANONYMOUS, Frames, Symbol
from omn_kernel.symbols.held import MappedFiles
from omn_kernel.symbols.identity import Identity, find_identity, find_root
from omn_kernel.symbols.index import Addresses, Numbers
from omn_kernel.symbols.mappings import Mapping, read_mappings
from omn_kernel.symbols.memories import Memory, iter_layouts
from omn_kernel.symbols.namers import MappedNamer, Namers
from omn_kernel.symbols.naming import Namer
from omn_kernel.symbols.perf_map import PerfMap, find_map
from omn_kernel.symbols.spaces import AddressSpaces, Space

_PROGRAM_UNTIL, _KERNEL_FROM = np.uint64(1 << 63), np.uint64(0xFFFF8 << 44)
"""Between the two there is no code: what is there was read where a frame was taken to be, and is no address. The kernel
has its own, its modules' and what it makes as it runs in the last 128 TiB, whatever its page tables reach
(Documentation/arch/x86/x86_64/mm.rst and arch/arm64/memory.rst)."""

_Part = tuple[Numbers, Addresses]


class Symboliser:
    """Names the addresses of processes whose mappings `spaces` holds, and of the kernel.

    `symbols` holds every symbol made so far; a number in it stands for the same symbol for the whole run. `files` are
    those that processes have mapped. `sources` says where names may come from; without any, code is told apart by its
    object and its address there.
    """

    def __init__(self, spaces: AddressSpaces, sysroot: str = "/", sources: NameSources | None = None) -> None:
        self.symbols: list[Symbol] = []
        self.spaces = spaces
        self._sysroot = sysroot
        self._sources = NameSources() if sources is None else sources
        self.files = MappedFiles(sysroot)
        self._namers = Namers(sysroot, self._sources, self.files)
        self._identities: dict[int, Identity] = {}
        self._maps: dict[Space, tuple[PerfMap, MappedNamer]] = {}
        self._unknown = MappedNamer(Namer(None, Symbol(None, None, 0), is_file=False))
        self._anonymous = MappedNamer(Namer(None, Symbol(None, ANONYMOUS, 0), is_file=False))

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be named and why, in a sentence each."""
        faults = (
            f"the perf map of process {space.pid} is not read: {perf_map.refusal}"
            for space, (perf_map, _) in self._maps.items()
            if perf_map.refusal is not None
        )
        return tuple(dict.fromkeys([*self._namers.notes, *faults]))

    def follow(self, pid: int, ts_ns: int) -> None:
        """Read who a process is and what it has mapped, at its first sight: it may be gone when it is asked for.

        One that is gone already, or closed to this user, is left to its records.
        """
        if self.identify(pid):
            self.spaces.note_running(pid, read_mappings(self._sysroot, pid), ts_ns)
        self._hold_files()

    def identify(self, pid: int) -> bool:
        """Read who a process is, False where it is gone. What it maps is left to its records."""
        identity = find_identity(self._sysroot, pid)
        if identity is not None:
            self._identities[pid] = identity
        return identity is not None

    def read_growth(self) -> None:
        """Read what the runtimes of followed processes have written of their code since: at ticks, and at the end.

        The files that were mapped since are opened and held, so that one that is deleted, or gone with its container,
        is named all the same.
        """
        self._hold_files()
        for pid in self._identities:
            for space in self.spaces.get_spaces(pid)[-1:]:
                if any(mapping.is_anonymous for mapping in space.mappings):
                    self._get_anonymous(space)

    def resolve(self, pid: int, ips: Addresses, ts_ns: Numbers) -> Frames:
        """Name addresses of one process, each as it was mapped at its time. Many in one call is what makes it fast."""
        return self.resolve_all(np.full(len(ips), pid, np.int64), ips, ts_ns)

    def resolve_all(self, pids: npt.NDArray[np.integer[Any]], ips: Addresses, ts_ns: Numbers) -> Frames:
        """Name addresses of many processes: what they have mapped in common is asked once for all of them."""
        frames = Frames(np.full(len(ips), -1, np.int64), np.zeros(len(ips), np.uint64))
        nowhere = np.flatnonzero((ips >= _PROGRAM_UNTIL) & (ips < _KERNEL_FROM))
        asked: dict[MappedNamer, list[_Part]] = {self._unknown: [(nowhere, ips[nowhere])]}
        in_kernel = ips >= _KERNEL_FROM
        if in_kernel.any():
            asked[MappedNamer(self._namers.get_kernel())] = [(np.flatnonzero(in_kernel), ips[in_kernel])]
        in_program = np.flatnonzero(ips < _PROGRAM_UNTIL)
        for pid, held in _iter_groups(pids[in_program]):
            for mapped, part in self._iter_parts(pid, in_program[held], ips, ts_ns):
                asked.setdefault(mapped, []).append(part)
        for mapped, parts in asked.items():
            places, offsets = (np.concatenate(column) for column in zip(*parts, strict=True))
            unique, inverse = np.unique(offsets, return_inverse=True)
            symbol, offset = mapped.name(unique, self.symbols)
            frames.symbol[places], frames.offset[places] = symbol[inverse], offset[inverse]
        return frames

    def find_waits(self, chains: Addresses) -> Numbers:
        """Find what threads wait in: of each chain of kernel addresses, the innermost symbol outside its waiting.

        `chains` has a row for each, the innermost first and zeros behind the last; -1 for a row that is all waiting. It
        is what ps(1) calls wchan: threads give their cpu up in a few functions, whatever they wait for.
        """
        symbols = self.resolve(0, chains.reshape(-1), np.zeros(chains.size, np.int64)).symbol
        waiting = self._namers.waiting
        different, places = np.unique(symbols, return_inverse=True)
        starts = np.array([self.symbols[one].start for one in different.tolist()], np.uint64)
        is_waiting = (starts >= np.uint64(waiting.start)) & (starts < np.uint64(waiting.stop))
        is_found = ~is_waiting[places].reshape(chains.shape) & (chains != 0)
        first = is_found.argmax(axis=1)
        rows = np.arange(len(chains))
        return np.where(is_found[rows, first], symbols.reshape(chains.shape)[rows, first], -1)

    def iter_memories(self, pid: int, ips: Addresses, ts_ns: Numbers) -> Iterator[Memory]:
        """Yield what a process had mapped when instructions were at some addresses, and at which of them.

        Where one is in nothing known the maps are read again, so often and no more.
        """
        for space, chosen in self._iter_spaces(pid, np.arange(len(ips)), ts_ns):
            is_living = self._is_living(space, ts_ns[chosen])
            self._find_mappings(space, ips[chosen], ts_ns[chosen], is_living)
            for mappings, places in iter_layouts(space, ts_ns[chosen]):
                yield Memory(mappings, is_living, chosen[places])

    def _iter_parts(
        self, pid: int, chosen: Numbers, ips: Addresses, ts_ns: Numbers
    ) -> Iterator[tuple[MappedNamer, _Part]]:
        """Yield who names which addresses of a process: where they stand in `ips`, and what that one knows them by."""
        for space, places in self._iter_spaces(pid, chosen, ts_ns):
            is_living = self._is_living(space, ts_ns[places])
            numbers = self._find_mappings(space, ips[places], ts_ns[places], is_living)
            for number, held in _iter_groups(numbers):
                mapping = space.mappings[number] if number >= 0 else None
                yield self._place(mapping, space, is_living, places[held], ips[places[held]])

    def _place(
        self, mapping: Mapping | None, space: Space, is_living: bool, places: Numbers, ips: Addresses
    ) -> tuple[MappedNamer, _Part]:
        if mapping is None:
            return self._unknown, (places, ips)
        if mapping.is_anonymous:
            return self._get_anonymous(space), (places, ips)
        mapped = self._namers.get(mapping, space.pid, is_living)
        return mapped, (places, mapped.compute_offsets(mapping, ips))

    def _iter_spaces(self, pid: int, chosen: Numbers, ts_ns: Numbers) -> Iterator[tuple[Space, Numbers]]:
        """Yield the spaces that a process had when samples were taken, and which samples."""
        if not len(chosen):
            return
        if not self.spaces.get_spaces(pid):
            self.spaces.note_running(pid, (), 0)
        spaces = self.spaces.get_spaces(pid)
        begun = np.array([space.begun_ns for space in spaces], np.int64)
        numbers = np.maximum(np.searchsorted(begun, ts_ns[chosen], side="right") - 1, 0)
        for number, places in _iter_groups(numbers):
            yield spaces[number], chosen[places]

    def _is_living(self, space: Space, ts_ns: Numbers) -> bool:
        """Tell whether a process still runs the program that the samples are of: the last it executed, never reused."""
        if not self.spaces.is_last(space):
            return False
        identity = find_identity(self._sysroot, space.pid)
        if identity is None or identity.begun_ns > int(ts_ns.max()):
            return False
        self._identities.setdefault(space.pid, identity)
        return True

    def _find_mappings(self, space: Space, ips: Addresses, ts_ns: Numbers, is_living: bool) -> Numbers:
        """Find each address's mapping. For one in none the maps are read again, so often and no more."""
        numbers = space.find(ips, ts_ns)
        if is_living and space.rereads_left > 0 and (numbers < 0).any():
            space.rereads_left -= 1
            known = {one.place for one in space.mappings}
            space.put_before(tuple(one for one in read_mappings(self._sysroot, space.pid) if one.place not in known))
            numbers = space.find(ips, ts_ns)
        return numbers

    def _get_anonymous(self, space: Space) -> MappedNamer:
        """Return the namer of a space's anonymous memory: its perf map, where it is known whose it is."""
        if not self._sources.is_local:
            return self._anonymous
        found = self._maps.get(space)
        if found is None:
            identity = self._identities.get(space.pid)
            if identity is None:
                return self._anonymous
            identity = attrs.evolve(identity, begun_ns=max(identity.begun_ns, space.begun_ns))
            perf_map = PerfMap(self._find_map_paths(identity), identity)
            found = perf_map, MappedNamer(Namer(perf_map, Symbol(None, ANONYMOUS, 0), is_file=False))
            self._maps[space] = found
        if self.spaces.is_last(space) or not found[0].is_open:
            found[0].read_growth()
        return found[1]

    def _find_map_paths(self, identity: Identity) -> tuple[str, ...]:
        """Return where a process's map may stand: in its own root while it lives, and in this one's."""
        own = find_root(self._sysroot, identity.pid) + find_map(identity.inner_pid)
        return own, place(self._sysroot, find_map(identity.pid))

    def _hold_files(self) -> None:
        self.files.hold(self.spaces.take_fresh())

    def close(self) -> None:
        """Let go of the files and maps that are held open."""
        self.files.close()
        for perf_map, _ in self._maps.values():
            perf_map.close()


def _iter_groups(numbers: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, Numbers]]:
    """Yield each number and where it stands."""
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    for low, high in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        yield int(ordered[low]), order[low:high]
