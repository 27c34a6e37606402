"""Collectors of what tasks do in the kernel for want of memory, each time from its beginning to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.spans import SpanRecords
from omn_kernel.bpf.task_states import TaskStates

from omn_core.api import BoundTarget, Column
from omn_mem.programs.episodes import TIMES, EpisodePrograms

Records = npt.NDArray[Any]
UNTOLD = -1
"""What a field is of something that has not ended, where its end tells it."""


class Episodes(SpanRecords, ABC):
    """An event for each time that ends, and for each that has not when the window closes, of its time until there.

    `name` is what bpftool lists the map of begun ones by, `own` are the fields of a record beside its times.
    """

    name: str
    own: Sequence[tuple[str, str]]
    began = "began_ns"
    lasted = "stall_ns"
    _begun_before = 0

    def open_maps(self) -> None:
        """Open the way that records come, and what has begun."""
        self.layout = (*TIMES, *self.own)
        super().open_maps()
        self._states = self.hold(TaskStates(self.name, self.record))
        self._unknown = self.hold(LostCounter())

    def get_spans(self) -> Map:
        """Return what has begun."""
        return self._states.table

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs, and what forgets threads."""
        self.load_states(self._states)
        self.load_episodes(EpisodePrograms(self, self._states, self._unknown))

    @abstractmethod
    def load_episodes(self, written: EpisodePrograms) -> None:
        """Load the programs where it ends and where it begins, in that order."""

    @abstractmethod
    def make_own_columns(self, records: Records) -> Mapping[str, Column]:
        """Make the columns of a record's own fields."""

    def detach(self) -> None:
        """Keep how many ended that were not seen to begin."""
        super().detach()
        self._begun_before = self._unknown.read_count()

    def make_columns(self, records: Records) -> Columns:
        """Make columns of what took its time."""
        keys, attributes = self.task_fields.make_columns(records, self.context.names)
        stall = Column(records["stall_ns"].astype(np.int64))
        own = self.make_own_columns(records)
        named = {name: column for name, column in own.items() if name in self.resolved.entry.keys}
        said = {name: column for name, column in own.items() if name not in named}
        return Columns({**keys, **named}, {"stall_ns": stall, **said, **attributes}, stack=self.make_stacks(records))

    def fields(self) -> Mapping[str, int]:
        """Return how many events there are, and how many ended whose beginning was not seen, in no event."""
        return {**super().fields(), "begun_before": self._begun_before}


def make_told(values: Records) -> Column:
    """Make the column of what the end tells, absent of what has not ended."""
    numbers = values.astype(np.int64)
    return Column(numbers, numbers != UNTOLD)
