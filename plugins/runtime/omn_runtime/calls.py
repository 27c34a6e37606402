"""runtime.func: calls of the functions that the filter names, each from its entry to its return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_named_column
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.probed import ProbedRecords
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.user_functions import Chooses, UserFunction
from omn_kernel.elf.image import Image
from omn_kernel.ended import find_signal
from omn_kernel.procfs.process import has_ended

from omn_core.api import (
    BoundTarget,
    Column,
    MachineRefused,
    RequestError,
    ResolvedRequest,
    RunContext,
    compile_filter,
)
from omn_runtime.functions import FunctionFilter, TimedFunction
from omn_runtime.programs.func import CALL_KEY, DEPTH, DEPTH_KEY, FIELDS, MOST_CALLS, CallPrograms

Records = npt.NDArray[Any]

MOST_FUNCTIONS = 32
_SHORT_NS = 2_000
_ABORTED = "SIGABRT"
"""How a program ends in which an exception finds no way on (std::terminate, a panic that cannot unwind)."""
_GO = "ask cpu.profile, which samples its functions"
_ASK = """name functions, as in --filter 'function == "main"' or --filter 'function =~ "^parse_"'"""


class Calls(ProbedRecords, SpanRecords):
    """An event for each call that returns, and for each that has not when the window closes."""

    sought = "function that the filter names by its symbols"
    remedy = "ask cpu.profile --keys func for the names that there are"
    layout = FIELDS
    began = "began_ns"
    lasted = "duration_ns"

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Read which functions are asked for. Raises RequestError where the filter names none."""
        text = resolved.request.filter
        wanted = None if text is None else FunctionFilter(compile_filter(text))
        if wanted is None or not wanted.names_functions:
            raise RequestError("every call of every function of a program would be timed", _ASK)
        self._wanted = wanted
        self._timed: list[TimedFunction] = []
        self._passed: list[str] = []
        self._is_running = False
        self._short = self._made = self._gone = self._over = self._replaced_count = self._unpaired_count = 0
        self._target: BoundTarget | None = None
        self._ended_inside: str | None = None
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that records come, and the calls that threads are in."""
        super().open_maps()
        self._depths = self.hold(Map(MapType.HASH, "depths", DEPTH_KEY, DEPTH, MOST_CALLS))
        self._calls = self.hold(Map(MapType.HASH, "calls", CALL_KEY, self.record, MOST_CALLS))
        self._lost, self._unpaired, self._replaced = (self.hold(LostCounter()) for _ in range(3))

    def get_spans(self) -> Map:
        """Return the calls that threads are in."""
        return self._calls

    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Return what chooses the functions that the filter names in each file.

        Raises RequestError for more than are timed, and MachineRefused for a file of Go's, whose stacks move.
        """
        self.count_lost(self._lost, f"calls found no room among the {MOST_CALLS} that are remembered")
        self._written = CallPrograms(
            tasks=self.tasks.filter,
            depths=self._depths,
            calls=self._calls,
            take_task=self.take_task,
            transport=self.transport,
            lost=self._lost,
            unpaired=self._unpaired,
            left=self._replaced,
        )
        return self._choose

    def _choose(self, image: Image, path: str) -> Sequence[UserFunction]:
        chosen = self._wanted.choose(image, path)
        is_go = bool(chosen) and image.find_section(b".gopclntab") is not None
        count = len(self._timed) + len(chosen)
        if self._is_running and (is_go or count > MOST_FUNCTIONS):
            self._passed.append(path)
            return ()
        if is_go:
            raise MachineRefused(f"{path} is a Go program, whose stacks move: a probe on a return would end it", _GO)
        if count > MOST_FUNCTIONS:
            raise RequestError(f"the filter names {count} functions, of which {MOST_FUNCTIONS} can be timed", _ASK)
        numbered = list(enumerate(chosen, len(self._timed)))
        self._timed += chosen
        returns = [
            UserFunction((one.linked,), partial(self._written.write_return, number), is_return=True)
            for number, one in numbered
        ]
        entries = [UserFunction((one.linked,), partial(self._written.write_entry, number)) for number, one in numbered]
        return [*returns, *entries]

    def attach(self, target: BoundTarget) -> None:
        """Attach; from then on a file that cannot be timed is passed over."""
        self._target = target
        super().attach(target)
        self._is_running = True

    def detach(self) -> None:
        """Keep the calls that have not returned."""
        super().detach()
        self._unpaired_count, self._replaced_count = self._unpaired.read_count(), self._replaced.read_count()

    def read_left(self) -> Records:
        """Read the calls that have not returned, but those of processes that have ended."""
        left = super().read_left()
        gone = [pid for pid in np.unique(left["process"]).tolist() if has_ended("/", pid)]
        is_gone = np.isin(left["process"], gone)
        self._gone = int(is_gone.sum())
        self._find_death(left)
        return left[~is_gone]

    def _find_death(self, left: Records) -> None:
        """Find out whether the launched program aborted inside a timed call, as an exception that is thrown does."""
        target = self._target
        if target is None or not self.resolved.begins_held(target):
            return
        (program,) = target.processes
        if (left["process"] == program.pid).any() and find_signal(program.pid) == _ABORTED:
            self._ended_inside = _ABORTED

    def end_at(self, records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
        """End at the close what is on still; what its thread has left without a return is none of that."""
        is_over = find_left_calls(records, left)
        self._over = int(is_over.sum())
        return super().end_at(records, left[~is_over], closed_ns)

    def failure(self) -> str | None:
        """Return why the run must fail: the program's death, which may be omn's doing."""
        if self._ended_inside is None:
            return None
        return (
            f"{self._ended_inside} killed the program inside a timed call, as it does where an exception is thrown "
            "through one: omn may have done it"
        )

    def make_columns(self, records: Records) -> Columns:
        """Make columns of the calls."""
        names = self.context.names
        keys, attributes = self.task_fields.make_columns(records, names)
        lasted = records["duration_ns"].astype(np.int64)
        self._short, self._made = int((lasted < _SHORT_NS).sum()), len(records)
        made = {
            "duration_ns": Column(lasted),
            "calls": Column(np.ones(len(records), np.int64)),
            "depth": Column(records["depth"].astype(np.int64)),
            "function": make_named_column(records["function"], lambda one: self._timed[one].shown, names),
            "object": make_named_column(records["function"], lambda one: self._timed[one].path, names),
        }
        return Columns(keys, {**made, **attributes}, stack=self.make_stacks(records))

    def fields(self) -> Mapping[str, int]:
        """Return what was delivered, and how many entries and returns have no other half."""
        unreturned = self._gone + self._over + self._replaced_count
        return {**super().fields(), "unreturned": unreturned, "unpaired": self._unpaired_count}

    def facts(self) -> tuple[str, ...]:
        """Say which functions were timed."""
        timed = ", ".join(f"{one.shown} of {one.path}" for one in self._timed)
        return (*([f"timed: {timed}"] if timed else []), *super().facts())

    def degradations(self) -> tuple[str, ...]:
        """Say how many times are mostly the measurement's, and what is not timed."""
        said = [] if self._timed else ["nothing that the program maps at its start has such a function by its symbols"]
        if self._short:
            said.append(f"{self._short} of {self._made} calls took less than 2 us, which is mostly the measurement")
        if self._passed:
            said.append(f"not timed, mapped later: {', '.join(self._passed)}")
        return (*said, *super().degradations())


def find_left_calls(returned: Records, left: Records) -> npt.NDArray[np.bool_]:
    """Find which calls that have not returned are over: their thread has since returned from one that was around them.

    That one's stack stood above theirs when it was entered.
    """
    is_over = np.zeros(len(left), np.bool_)
    for thread in np.unique(left["thread"]):
        own = np.flatnonzero(left["thread"] == thread)
        others = returned[returned["thread"] == thread]
        others = others[np.argsort(others["ns"], kind="stable")]
        # Of each moment, the highest that the stack stood at a return after it.
        highest = np.append(np.maximum.accumulate(others["stack"][::-1])[::-1], np.uint64(0))
        since = highest[np.searchsorted(others["ns"], left["began_ns"][own], "right")]
        is_over[own] = since >= left["stack"][own]
    return is_over


class CallLinks(Calls):
    """The same programs, the places of each in one link."""

    is_multi = True
