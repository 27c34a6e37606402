"""runtime.custom: how often the places that the filter names are passed, and each time that one is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.choosing import ChosenCollector
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.probed import ProbedPrograms, ProbedRecords, ProbedRows
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.user_functions import Chooses, UserPlace, UserPlaces, WritesPlace
from omn_kernel.elf.image import Image

from omn_core.api import BoundTarget, Column, RequestError, ResolvedRequest, RunContext, compile_filter
from omn_runtime.places import ChosenPlace, PlaceFilter
from omn_runtime.programs.custom import ARGUMENTS, MOST_OF_FUNCTIONS, ROW, RecordPrograms, RowPrograms, lay_out

Records = npt.NDArray[Any]

MOST_EVENTS, MOST_LINKED = 32, 1024
"""How many places are probed by an event each, which the kernel takes a tenth of a second to end, and by links."""
_MOST_NAMED = 16
_ASK = """name places, as in --filter 'function == "main"' or --filter 'function == "python:gc__start"'"""


class PassedPlaces(ProbedPrograms, ABC):
    """What counts and what hands over the passings of places share: which places these are.

    `has_functions` says that functions are looked for too, and not the places alone that programs mark.
    """

    remedy = "cpu.profile --keys func names functions that run, and readelf -n the places that a file marks"
    task_fields: TaskFields

    def __init__(self, *, is_multi: bool, has_functions: bool) -> None:
        self.is_multi = is_multi
        self._has_functions = has_functions
        self.sought = "place that the filter names" if has_functions else "marked place that the filter names"

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Read which places are asked for. Raises RequestError where the filter names none."""
        text = resolved.request.filter
        wanted = None if text is None else PlaceFilter(compile_filter(text), has_functions=self._has_functions)
        if wanted is None or not wanted.names_places:
            raise RequestError("every function of a program would be probed", _ASK)
        self._wanted = wanted
        self.places: list[ChosenPlace] = []
        self._events = self._linked = 0
        self._passed: list[str] = []
        self._is_running = False
        super().prepare(resolved, context)

    @abstractmethod
    def make_writer(self, place: ChosenPlace) -> WritesPlace:
        """Make what writes the program of a place; of all functions the same."""

    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Return what chooses the places that the filter names in each file."""
        return self._choose

    def _choose(self, image: Image, path: str) -> Sequence[UserPlaces]:
        """Choose the places of a file. Raises RequestError for more than are probed."""
        chosen = self._wanted.choose(image, path)
        links = [one for one in chosen if self.is_multi and not one.is_marked]
        events, linked = self._events + len(chosen) - len(links), self._linked + len(links)
        if events > MOST_EVENTS or linked > MOST_LINKED:
            if self._is_running:
                self._passed.append(path)
                return ()
            most = f"{MOST_LINKED} functions and {MOST_EVENTS} marked" if self.is_multi else str(MOST_EVENTS)
            raise RequestError(f"the filter names {events + linked} places, of which {most} can be probed", _ASK)
        self._events, self._linked = events, linked
        first = len(self.places)
        self.places += chosen
        placed = [UserPlace(one.offset, number, one.counter) for number, one in enumerate(chosen, first)]
        marks = [
            UserPlaces(one.shown, (place,), self.make_writer(one))
            for one, place in zip(chosen, placed, strict=True)
            if one.is_marked
        ]
        entries = tuple(place for one, place in zip(chosen, placed, strict=True) if not one.is_marked)
        functions = [one for one in chosen if not one.is_marked][:1]
        return [*marks, *(UserPlaces("passes", entries, self.make_writer(one)) for one in functions)]

    def attach(self, target: BoundTarget) -> None:
        """Attach; from then on a file that cannot be probed is passed over."""
        super().attach(target)
        self._is_running = True

    def make_place_columns(self, numbers: Records) -> dict[str, Column]:
        """Make the columns of what the places are called, and of one passing each."""
        names = self.context.names
        return {
            "calls": Column(np.ones(len(numbers), np.int64)),
            "function": make_named_column(numbers, lambda one: self.places[one].shown, names),
            "object": make_named_column(numbers, lambda one: self.places[one].path, names),
        }

    def facts(self) -> tuple[str, ...]:
        """Say which places of each file were probed, the first of many."""
        return (*(self._name_places(path) for path in dict.fromkeys(one.path for one in self.places)), *super().facts())

    def _name_places(self, path: str) -> str:
        named = sorted({one.shown for one in self.places if one.path == path})
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return f"places of {path}: {', '.join(named[:_MOST_NAMED])}{more}"

    def degradations(self) -> tuple[str, ...]:
        """Say what was not probed, and which arguments are not read."""
        said = [] if self.places else [f"nothing that the program maps at its start has a {self.sought}"]
        if self._passed:
            said.append(f"not probed, mapped later: {', '.join(self._passed)}")
        return (*said, *super().degradations())


class PassRecords(PassedPlaces, ProbedRecords):
    """An event for each time that a place is passed."""

    def open_maps(self) -> None:
        """Open the way that records come, with the arguments that the answer shows."""
        self._of_marks = [name for name in ARGUMENTS if self.resolved.shows(name)]
        # Nothing says how many arguments a function takes: those that are asked for are its.
        self._of_functions = [name for name in ARGUMENTS[:MOST_OF_FUNCTIONS] if self.resolved.is_divided_by(name)]
        self.layout = lay_out(self._of_marks)
        super().open_maps()

    def make_writer(self, place: ChosenPlace) -> WritesPlace:
        """Make what writes a place's program."""
        written = RecordPrograms(
            tasks=self.tasks.filter,
            layout=self.record,
            of_functions=self._of_functions,
            of_marks=self._of_marks,
            take_task=self.take_task,
            transport=self.transport,
        )
        return partial(written.write_mark, place.arguments) if place.is_marked else written.write_entry

    def make_columns(self, records: Records) -> Columns:
        """Make columns of the passings, an argument absent where its place has none, or none that could be read."""
        keys, attributes = self.task_fields.make_columns(records, self.context.names)
        arguments = {
            name: Column(records[name].astype(np.int64), self._find_present(records, position))
            for position, name in enumerate(ARGUMENTS)
            if name in self._of_marks
        }
        made = self.make_place_columns(records["place"])
        return Columns(keys, {**made, **arguments, **attributes}, stack=self.make_stacks(records))

    def _find_present(self, records: Records, position: int) -> npt.NDArray[np.bool_]:
        has = np.array([self._has_argument(place, position) for place in self.places], bool)
        present: npt.NDArray[np.bool_] = has[records["place"]]
        present &= records["unread"] & np.uint32(1 << position) == 0
        return present

    def _has_argument(self, place: ChosenPlace, position: int) -> bool:
        if not place.is_marked:
            return ARGUMENTS[position] in self._of_functions
        return position < len(place.arguments) and place.arguments[position] is not None

    def degradations(self) -> tuple[str, ...]:
        """Say which marked places have arguments that are not read."""
        kept = range(len(self._of_marks))
        cut = {one.shown for one in self.places if any(one.arguments[at] is None for at in kept[: len(one.arguments)])}
        said = f"where some arguments lie is not read: of {', '.join(sorted(cut))}"
        return (*([said] if cut else []), *super().degradations())


class PassRows(PassedPlaces, ProbedRows):
    """Passings counted in the kernel, a row for each place and what else divides the answer."""

    row = ROW

    def open_maps(self) -> None:
        """Open the map of rows."""
        self.task_fields = TaskFields(self.resolved)
        self.key = np.dtype([("place", "u4"), *self.task_fields.layout], align=True)
        super().open_maps()

    def make_writer(self, place: ChosenPlace) -> WritesPlace:
        """Make what writes a place's program."""
        return RowPrograms(self.tasks.filter, self.task_fields, self.key, self.rows).write

    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of rows, each as many passings as it counted."""
        keys, attributes = self.task_fields.make_columns(entries.keys, self.context.names)
        made = self.make_place_columns(entries.keys["place"])
        return Columns(keys, {**made, **attributes}, entries.values["count"].astype(np.int64))


class Passes(ChosenCollector):
    """Each passing, or how many there were, where nothing of one alone is asked."""

    is_multi = False
    has_functions = True

    def choose(self, resolved: ResolvedRequest) -> PassRecords | PassRows:
        """Choose rows for a count that neither arguments nor stacks divide, else records."""
        divides = resolved.stack_keys or any(resolved.is_divided_by(name) for name in ARGUMENTS)
        is_counted = resolved.mode == "count" and not divides
        self.reads_between = not is_counted
        made = PassRows if is_counted else PassRecords
        return made(is_multi=self.is_multi, has_functions=self.has_functions)


class PassLinks(Passes):
    """The same programs, the functions of each file in one link."""

    is_multi = True


class Marks(Passes):
    """The places alone that programs mark."""

    has_functions = False
