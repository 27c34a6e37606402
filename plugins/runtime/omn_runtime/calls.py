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
        self._short = self._made = self._unreturned = self._unpaired_count = 0
        super().prepare(resolved, context)

    def open_maps(self) -> None:
        """Open the way that records come, and the calls that threads are in."""
        super().open_maps()
        self._depths = self.hold(Map(MapType.HASH, "depths", DEPTH_KEY, DEPTH, MOST_CALLS))
        self._calls = self.hold(Map(MapType.HASH, "calls", CALL_KEY, self.record, MOST_CALLS))
        self._lost, self._unpaired = self.hold(LostCounter()), self.hold(LostCounter())

    def get_spans(self) -> Map:
        """Return the calls that threads are in."""
        return self._calls

    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Return what chooses the functions that the filter names in each file.

        Raises RequestError for more than are timed, and MachineRefused for a file of Go's, whose stacks move.
        """
        self.count_lost(self._lost, f"calls found no room among the {MOST_CALLS} that are remembered")
        self._written = CallPrograms(
            self.tasks.filter,
            self.task_fields,
            self._depths,
            self._calls,
            self.take_stack,
            self.transport,
            self._lost,
            self._unpaired,
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
        super().attach(target)
        self._is_running = True

    def detach(self) -> None:
        """Keep the calls that have not returned."""
        super().detach()
        self._unpaired_count = self._unpaired.read_count()

    def read_left(self) -> Records:
        """Read the calls that have not returned, but those of processes that have ended."""
        left = super().read_left()
        gone = [pid for pid in np.unique(left["process"]).tolist() if has_ended("/", pid)]
        is_gone = np.isin(left["process"], gone)
        self._unreturned = int(is_gone.sum())
        return left[~is_gone]

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
        return {**super().fields(), "unreturned": self._unreturned, "unpaired": self._unpaired_count}

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


class CallLinks(Calls):
    """The same programs, the places of each in one link."""

    is_multi = True
