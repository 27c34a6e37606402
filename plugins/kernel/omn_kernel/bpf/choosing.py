"""A collector that is one of several, by what is asked of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from omn_core.api import Batch, BoundTarget, Collector, CollectorBase, InTargetCost, Losses, ResolvedRequest, RunContext


class ChosenCollector(CollectorBase, ABC):
    """Chooses a collector when the request is known, and is that one from then on."""

    hears_all = True
    _chosen: Collector

    @abstractmethod
    def choose(self, resolved: ResolvedRequest) -> Collector:
        """Make the collector for a request."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Choose, and open what needs no target."""
        super().prepare(resolved, context)
        self._chosen = self.choose(resolved)
        self._chosen.prepare(resolved, context)

    def attach(self, target: BoundTarget) -> None:
        """Load the programs for the target, and attach them."""
        self._chosen.attach(target)

    def sample(self, now_ns: int) -> Batch:
        """Take what came."""
        return self._chosen.sample(now_ns)

    def stop(self) -> Batch:
        """Detach the programs, and return what was handed over."""
        return self._chosen.stop()

    def losses(self) -> Losses:
        """Return what was lost."""
        return self._chosen.losses()

    def fields(self) -> Mapping[str, int]:
        """Return the counts of the collector that was chosen."""
        return self._chosen.fields()

    def facts(self) -> tuple[str, ...]:
        """Return the facts of the collector that was chosen."""
        return self._chosen.facts()

    def degradations(self) -> tuple[str, ...]:
        """Return what the collector that was chosen could not say."""
        return self._chosen.degradations()

    def row_stamp(self) -> str | None:
        """Return when rows are stamped, where they are not each at its own event."""
        return self._chosen.row_stamp()

    def in_target_cost(self) -> InTargetCost:
        """Return what the programs ran, unknown where the kernel did not time them."""
        return self._chosen.in_target_cost()

    def one_time_cpu_ns(self) -> int:
        """Return what the collector that was chosen spent once, such as on fetching symbols."""
        return self._chosen.one_time_cpu_ns()
