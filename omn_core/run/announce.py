"""Telling a run's observers, each in its own guard."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import attrs

from omn_core.errors import PLUGIN_FAULTS
from omn_core.model.batch import Batch
from omn_core.model.resolved import ResolvedSession
from omn_core.plugins import PluginRecord, Registry
from omn_core.run.events import Moment, RunEvent


@attrs.define(eq=False)
class Announcer:
    """The observers of one run. One that raises is told nothing more, and `notes` says so."""

    registry: Registry
    session: ResolvedSession
    pid: int | None = None
    notes: list[str] = attrs.field(factory=list)
    _observers: list[tuple[PluginRecord, Any]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._observers = self.registry.observers()

    def tell(self, moment: Moment, batches: Sequence[tuple[int, Batch]] = ()) -> None:
        """Announce a moment to every observer that is left."""
        if not self._observers:
            return
        event = RunEvent(moment, time.monotonic_ns(), self.session, self.pid, batches)
        for observer in list(self._observers):
            record, function = observer
            try:
                function(event)
            except PLUGIN_FAULTS as error:  # a guarded plugin call
                self._observers.remove(observer)
                self.notes.append(
                    f"the observer of plugin {record.name!r} raised {type(error).__name__}: {error}; "
                    "it was told nothing more of this run"
                )
