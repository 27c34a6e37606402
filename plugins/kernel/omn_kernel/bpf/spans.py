"""Collectors of what lasts: it begins at one event of the kernel and is handed over at another, or at the close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import Batch, ResolvedRequest, RunContext
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.stacked import StackedRecords
from omn_kernel.bpf.streaming import StreamCollector

Records = npt.NDArray[Any]


class Spans(StreamCollector, ABC):
    """A collector of spans of time. What has begun stands in a map, as the record that it will be.

    `began` is the field of when it did, 0 for what has not, and `lasted` that of its nanoseconds. What has not ended
    when the window closes is an event of its time until there, and is counted.
    """

    began: str
    lasted: str
    _unfinished = 0

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open what needs no target."""
        self._closed_ns = 0
        self._left: Records | None = None
        super().prepare(resolved, context)

    @abstractmethod
    def get_spans(self) -> Map:
        """Return the map of what has begun."""

    def read_left(self) -> Records:
        """Read the records of what may be on still, once the programs are detached."""
        return self.get_spans().read().values

    def sample(self, now_ns: int) -> Batch:
        """Copy what came, and remember when the window closes: at the last reading."""
        self._closed_ns = now_ns
        return super().sample(now_ns)

    def detach(self) -> None:
        """Keep what has not ended."""
        super().detach()
        left = self.read_left()
        self._left = left[left[self.began] != 0]

    def make_events(self, records: Records) -> Batch:
        """Make the events of what ended, and of what had not when the window closed."""
        left = np.zeros(0, self.record) if self._left is None else self._left
        whole, self._unfinished = self.end_at(records, left, self._closed_ns)
        return super().make_events(whole)

    def end_at(self, records: Records, left: Records, closed_ns: int) -> tuple[Records, int]:
        """End at the close what had not ended then, and return all with how many these are.

        Some of `records` ended after the close; `left` have not ended.
        """
        is_late = (records["ns"] > closed_ns) & (records[self.began] < closed_ns)
        unfinished = np.concatenate([records[is_late], left[left[self.began] < closed_ns]])
        unfinished[self.lasted] = closed_ns - unfinished[self.began].astype(np.int64)
        unfinished["ns"] = closed_ns
        whole = np.concatenate([records[~is_late], unfinished])
        return whole[np.argsort(whole["ns"], kind="stable")], len(unfinished)

    def fields(self) -> Mapping[str, int]:
        """Return how many events were delivered, and how many of them had not ended when the window closed."""
        return {**super().fields(), "unfinished": self._unfinished}


class SpanRecords(Spans, StackedRecords, ABC):
    """A collector of spans of a task's time."""
