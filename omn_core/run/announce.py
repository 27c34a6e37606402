"""Telling a run's observers, each in its own guard."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from omn_core.errors import PLUGIN_FAULTS
from omn_core.model.batch import Batch
from omn_core.model.resolved import ResolvedSession
from omn_core.plugins import Registry
from omn_core.run.events import Moment, RunEvent

Observer = Callable[[RunEvent], None]


@attrs.define(eq=False, repr=False)
class Announcer:
    """The observers of one run: every plugin's, then the caller's own.

    One that raises is told nothing more, and `notes` says so.
    """

    registry: Registry
    session: ResolvedSession
    callers: tuple[Observer, ...] = ()
    pid: int | None = None
    notes: list[str] = attrs.field(factory=list)
    _observers: list[tuple[str, Any]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        plugins = [(f"plugin {record.name!r}", function) for record, function in self.registry.observers()]
        self._observers = [*plugins, *(("the caller", function) for function in self.callers)]

    def tell(self, moment: Moment, batches: Sequence[tuple[int, Batch]] = (), lost: int = 0) -> None:
        """Announce a moment to every observer that is left."""
        if not self._observers:
            return
        event = RunEvent(moment, time.monotonic_ns(), self.session, self.pid, batches, lost)
        for observer in list(self._observers):
            owner, function = observer
            try:
                function(event)
            except PLUGIN_FAULTS as error:  # a guarded plugin call
                self._observers.remove(observer)
                self.notes.append(
                    f"the observer of {owner} raised {type(error).__name__}: {error}; "
                    "it was told nothing more of this run"
                )
