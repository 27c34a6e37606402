"""Collectors of records: programs write one for each event, ticks copy them, and they are decoded after the close."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.api import Batch, Losses
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.columns import Columns
from omn_kernel.bpf.copied import CopiedRecords
from omn_kernel.bpf.transport import STAMP, open_transport


class StreamCollector(ProgramCollector, ABC):
    """A collector of records, each an event of its own.

    `record` is their type, beginning with `ns`. A subclass writes programs that hand records to `self.transport`
    (`Transport.write`), and makes columns of what came.
    """

    record: np.dtype[Any]

    def open_maps(self) -> None:
        """Open the way that records come."""
        self.transport = self.hold(open_transport(self.record))
        self._copied = CopiedRecords(self.transport, self.context.memory_bytes, self.context.clock)
        self._delivered = 0

    @abstractmethod
    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of all records, which are in the order of their stamps."""

    def sample(self, now_ns: int) -> Batch:
        """Copy what came. Nothing is decoded yet."""
        self._copied.copy()
        return Batch.empty()

    def stop(self) -> Batch:
        """Detach the programs, and return the records that came until then."""
        try:
            if not self.programs.are_attached:
                return Batch.empty()
            self.detach()
            self._copied.copy()
        finally:
            self.let_go()
        return self.make_events(self._copied.decode())

    def make_events(self, records: npt.NDArray[Any]) -> Batch:
        """Make the events of records, as many as the bound of memory holds decoded; the others are counted."""
        if not len(records):
            return Batch.empty()
        columns = self.make_columns(records)
        stamps = records[STAMP].astype(np.int64)
        batch = Batch(stamps, None, columns.keys, columns.attributes, columns.weight, columns.stack)
        self._delivered = min(len(batch), len(batch) * self.context.memory_bytes // batch.nbytes)
        self._copied.drop(len(batch) - self._delivered)
        return batch.select(slice(self._delivered))

    def losses(self) -> Losses:
        """Return the records that found no room, in the kernel or here, and the runs that the kernel passed over."""
        return self.add_missed(self._copied.losses)

    def fields(self) -> Mapping[str, int]:
        """Return how many records were delivered, those beyond the window included."""
        return {"delivered": self._delivered}
