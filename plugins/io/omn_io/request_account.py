"""What devices count of their requests themselves, held against what programs saw complete.

A program is not told of what happens while a task that the kernel hides from tracepoints runs; the device counts it.
Both are read as one moment when the account opens and when it closes, and what the device counted more is lost. A
request that passed its tracepoint before the opening and is counted after it would be taken for one: as many as were
under way then and were not seen to complete are left out, and so are those that completed while it was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from omn_kernel.block import find_folder
from omn_kernel.polled import read_file
from omn_kernel.procfs.disks import parse_disk_stat

from omn_io.programs.completions import CompletionCounts, Counted, compute_device_place

_READINGS = 32
"""How often a busy device is read for a moment in which nothing completes."""

_COUNTERS = ("reads", "writes", "discards")


@attrs.frozen
class Moment:
    """What devices had counted, each by its name, and what was under way, between two readings of what programs saw."""

    before: Counted
    in_flight: int
    made: Mapping[str, int]
    after: Counted

    @property
    def passed(self) -> int:
        """How many requests completed while it was read."""
        return self.after.completed - self.before.completed

    @property
    def unsure(self) -> int:
        """How many requests may have passed their tracepoint and not be counted yet, or the other way round."""
        return self.in_flight + self.passed


def compute_unseen(opening: Moment, closing: Moment) -> int:
    """Compute how many requests at least completed in between, were counted by devices and were seen by no program.

    A device that came counts from nothing, and what one that went away or began anew counted is not known.
    """
    made = sum(max(0, made - opening.made.get(name, 0)) for name, made in closing.made.items())
    seen = closing.after.completed - opening.before.completed
    left = max(0, opening.in_flight - (closing.after.older - opening.after.older))
    return max(0, made - seen - left - opening.passed)


@attrs.frozen
class Unseen:
    """Requests of a device that no program saw complete, and those that none saw begin."""

    devices: tuple[str, ...]
    completed: int
    unbegun: int


class RequestAccount:
    """The account of some devices, from its opening to its closing.

    `find_devices` names those that requests are made to now, by their numbers. A device that came after the opening
    counts from nothing.
    """

    def __init__(self, counts: CompletionCounts, find_devices: Callable[[], Mapping[int, str]]) -> None:
        self._counts = counts
        self._find_devices = find_devices
        self._openings: dict[int, Moment] = {}

    def open(self, now_ns: int) -> None:
        """Open it, once the programs are attached."""
        self._counts.open(now_ns)
        for place, names in self._list_places().items():
            self._openings[place] = self._read_opening(place, names)

    def close(self, *, is_everybodys: bool) -> list[Unseen]:
        """Close it while the programs are attached, and return what was not seen.

        Where some tasks' requests alone are wanted, that is of the devices on which they had any.
        """
        found = []
        for place, names in self._list_places().items():
            opening = self._openings.get(place, _NOTHING)
            completed, counted = self._read_closing(place, names, opening)
            if is_everybodys or counted.kept > opening.before.kept:
                found.append(Unseen(tuple(names), completed, counted.unbegun))
        return [one for one in found if one.completed or one.unbegun]

    def _list_places(self) -> dict[int, list[str]]:
        places: dict[int, list[str]] = {}
        for number, name in self._find_devices().items():
            places.setdefault(compute_device_place(number), []).append(name)
        return places

    def _read_opening(self, place: int, names: Sequence[str]) -> Moment:
        """Read the moment that is surest of some, the first one that is sure."""
        surest = self._read(place, names)
        for _ in range(_READINGS):
            if not surest.unsure:
                break
            surest = min(surest, self._read(place, names), key=lambda moment: moment.unsure)
        return surest

    def _read_closing(self, place: int, names: Sequence[str], opening: Moment) -> tuple[int, Counted]:
        """Read how many were not seen: each moment tells at least how many, so that the most of some is nearest."""
        most = 0
        for _ in range(_READINGS):
            closing = self._read(place, names)
            most = max(most, compute_unseen(opening, closing))
            if not closing.unsure:
                break
        return most, closing.after

    def _read(self, place: int, names: Sequence[str]) -> Moment:
        before = self._counts.read(place)
        in_flight = sum(_read_stat(name)[1] for name in names)
        # Some kernels read what is under way after the counts: what is counted is to be read after it.
        stats = {name: _read_stat(name)[0] for name in names}
        made = {name: sum(stat.get(counter, 0) for counter in _COUNTERS) for name, stat in stats.items() if stat}
        return Moment(before, in_flight, made, self._counts.read(place))


_NOTHING = Moment(Counted(0, 0, 0, 0), 0, {}, Counted(0, 0, 0, 0))


def _read_stat(name: str) -> tuple[Mapping[str, int], int]:
    """Read a device's counters, none where it went away, and how many requests are under way."""
    try:
        return parse_disk_stat(read_file("/", f"{find_folder(name)}/stat"))
    except OSError:
        return {}, 0
