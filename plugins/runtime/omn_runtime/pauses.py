"""runtime.gc: each collection of garbage by a Python, which stops its threads for as long."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.mark_arguments import parse_arguments
from omn_kernel.bpf.probed import ProbedRecords
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tracing import ABSENT
from omn_kernel.bpf.user_functions import Chooses, UserPlace, UserPlaces
from omn_kernel.elf.image import EM_X86_64, Image
from omn_kernel.elf.marks import read_marks
from omn_kernel.procfs.process import has_ended

from omn_core.api import BoundTarget, Column
from omn_runtime.programs.gc import FIELDS, CollectionPrograms

Records = npt.NDArray[Any]


class Collections(ProbedRecords, SpanRecords):
    """An event for each collection that is done, and for each that is not when the window closes."""

    sought = "place by which a Python marks its collections of garbage"
    remedy = "run a Python that was built with its marks (configure --with-dtrace), as Debian's and Fedora's are"
    layout = FIELDS
    began = "began_ns"
    lasted = "pause_ns"

    def open_maps(self) -> None:
        """Open the way that records come, and the collections that threads are in."""
        super().open_maps()
        self._running = self.hold(TaskStates("collections", self.record))

    def get_spans(self) -> Map:
        """Return the collections that threads are in."""
        return self._running.table

    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Choose the two places, and load what forgets threads."""
        self.load_states(self._running)
        written = CollectionPrograms(self.tasks.filter, self.task_fields, self._running, self.transport)
        self._writers = {"python:gc__done": written.write_done, "python:gc__start": written.write_start}
        return self._choose

    def _choose(self, image: Image, path: str) -> Sequence[UserPlaces]:
        marks = [one for one in read_marks(image) if one.name in self._writers]
        is_known = image.machine == EM_X86_64
        return [
            UserPlaces(
                mark.name,
                (UserPlace(mark.offset, 0, mark.counter),),
                partial(self._writers[mark.name], parse_arguments(mark.arguments) if is_known else ()),
            )
            for mark in sorted(marks, key=lambda one: one.name)
        ]

    def read_left(self) -> Records:
        """Read the collections that are not done, but those of processes that have ended."""
        left = super().read_left()
        gone = [pid for pid in np.unique(left["process"]).tolist() if has_ended("/", pid)]
        return left[~np.isin(left["process"], gone)]

    def make_columns(self, records: Records) -> Columns:
        """Make columns of the collections; what one found is absent where it is not done."""
        keys, attributes = self.task_fields.make_columns(records, self.context.names)
        made = {
            "pause_ns": Column(records["pause_ns"].astype(np.int64)),
            "generation": Column(records["generation"].astype(np.int64), records["generation"] != ABSENT),
            "collected": Column(records["collected"].astype(np.int64), records["collected"] != ABSENT),
        }
        return Columns(keys, {**made, **attributes})

    def degradations(self) -> tuple[str, ...]:
        """Say where nothing was marked."""
        said = () if self._files else (f"nothing that the program maps at its start has a {self.sought}",)
        return (*said, *super().degradations())
