"""Collectors that read at each tick: they open, read and make rows; the clock, the losses and the closing are here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Generic, Protocol, TypeVar

import attrs
import numpy as np

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    Column,
    Losses,
    MachineRefused,
    ResolvedRequest,
    RunContext,
    TargetGone,
)
from omn_kernel.counters import Misses
from omn_kernel.polled import PolledFile, place

Content = TypeVar("Content")
Columns = Mapping[str, Sequence[Any] | Column]


class Closable(Protocol):
    """Anything that is held open until the collector stops."""

    def close(self) -> None:
        """Let go of it."""


Held = TypeVar("Held", bound=Closable)


@attrs.frozen(eq=False, repr=False)
class Rows:
    """The rows of one reading, in columns: what each is about, and what it says. Without a column there is no row.

    `began_ns` says when the reading of each row began, where that is told apart: a row is uncertain from there on.
    """

    keys: Columns = attrs.field(factory=dict)
    attributes: Columns = attrs.field(factory=dict)
    began_ns: Sequence[int] | None = None

    @classmethod
    def of_one(cls, attributes: Mapping[str, int | float | None], keys: Columns | None = None) -> Rows:
        """Make a single row; an attribute that is None is absent from it."""
        return cls(keys or {}, {name: [value] for name, value in attributes.items() if value is not None})

    @classmethod
    def of_each(cls, rows: Sequence[Mapping[str, Any]], keys: Columns | None = None) -> Rows:
        """Make a row of each mapping; what is None or not in one is absent from it, what all lack has no column."""
        names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
        return cls(keys or {}, {name: [row.get(name) for row in rows] for name in names})


class PolledCollector(CollectorBase, ABC, Generic[Content]):
    """A collector whose rows are made of what some files say at each tick.

    A subclass opens them, reads them, and makes rows of the content; nothing else is between it and the kernel. Where
    a reading describes the interval before it (`reads_at_open` is false, as it stands here), the first is made at the
    attach and its rows are nobody's: it is the baseline. Readings that give nothing are counted in `misses`.
    """

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Begin with nothing missed and nothing open."""
        super().prepare(resolved, context)
        self.misses = Misses()
        self._held = ExitStack()

    @abstractmethod
    def open_files(self, target: BoundTarget) -> None:
        """Open what the target's readings are made of. Raises MachineRefused where it is not there."""

    @abstractmethod
    def read(self) -> Content:
        """Read everything once, and nothing else: the clock is read around it. Raises TargetGone at the end."""

    @abstractmethod
    def make_rows(self, content: Content, at_ns: int) -> Rows:
        """Make the rows of a reading that was done at `at_ns`."""

    def attach(self, target: BoundTarget) -> None:
        """Open the files, and read the baseline where there is one."""
        self.open_files(target)
        if not self.reads_at_open:
            self.read_baseline()

    def read_baseline(self) -> None:
        """Read once and make nothing of it but the beginning of the first interval."""
        try:
            content = self.read()
        except TargetGone:
            raise MachineRefused("the target ended before it could be read") from None
        self.make_rows(content, self.context.clock())

    def sample(self, now_ns: int) -> Batch:
        """Return the rows of one reading, stamped at its end. Raises TargetGone where nothing is left to read."""
        before = self.context.clock()
        content = self.read()
        after = self.context.clock()
        rows = self.make_rows(content, after)
        if not rows.attributes:
            return Batch.empty()
        batch = Batch.of_reading((before, after), self.context.names, rows.keys, rows.attributes)
        if rows.began_ns is None:
            return batch
        return attrs.evolve(batch, ts_err=np.maximum(after - np.array(rows.began_ns, np.int64), 1))

    def hold(self, held: Held) -> Held:
        """Close something when the collector stops, and return it."""
        self._held.callback(held.close)
        return held

    def open_file(self, path: str, *, many_records: bool = False, size: int = 4096) -> PolledFile:
        """Open a file of the machine until the collector stops. Raises MachineRefused where it cannot be opened."""
        try:
            return self.hold(PolledFile(place(self.context.sysroot, path), many_records=many_records, size=size))
        except PermissionError:
            raise MachineRefused(f"{path} is closed to this user", "run omn as root") from None
        except OSError as error:
            raise MachineRefused(f"{path} cannot be opened: {error.strerror}") from None

    def stop(self) -> Batch:
        """Let go of every file. A reading is never buffered."""
        self._held.close()
        return Batch.empty()

    def losses(self) -> Losses:
        """Return the readings that gave nothing."""
        return self.misses.to_losses()


class MachineFileCollector(PolledCollector[bytes], ABC):
    """A collector of one file of the machine, named in `path`: a subclass makes rows of its bytes."""

    path: str
    many_records = False

    def open_files(self, target: BoundTarget) -> None:
        """Open the file."""
        self._file = self.open_file(self.path, many_records=self.many_records)

    def read(self) -> bytes:
        """Read the file."""
        return self._file.read()
