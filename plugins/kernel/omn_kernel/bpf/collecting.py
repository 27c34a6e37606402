"""What collectors share whose events eBPF programs make: the programs' life, what they cost and what they missed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TypeVar

import attrs

from omn_core.api import BoundTarget, CollectorBase, InTargetCost, Losses, MachineRefused, ResolvedRequest, RunContext
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.btf.types import Btf
from omn_kernel.polling import Closable

Held = TypeVar("Held", bound=Closable)


class ProgramCollector(CollectorBase, ABC):
    """A collector of programs in the kernel. A subclass opens its maps and writes its programs.

    `programs` are loaded by `write_programs` for the target that is there then, and attached all together; `tasks`
    keeps what is the target's. Whatever is refused on the way, nothing is left in the kernel.
    """

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open what needs no target."""
        super().prepare(resolved, context)
        self.programs = RunningPrograms()
        self._missed = Losses()
        self._held = ExitStack()
        self.open_maps()

    def hold(self, held: Held) -> Held:
        """Close something when the collector stops, and return it."""
        self._held.callback(held.close)
        return held

    @abstractmethod
    def open_maps(self) -> None:
        """Open the maps that the programs write to. Raises MachineRefused where the kernel makes none such."""

    @abstractmethod
    def write_programs(self, target: BoundTarget) -> None:
        """Write the programs for a target and load them, with `self.programs.load`."""

    def attach(self, target: BoundTarget) -> None:
        """Load the programs and attach them, those that follow the target's processes before those that ask."""
        window = self.resolved.request.window
        is_held = target.launched and not (window and window.start_ns)
        self.types = self._read_types()
        self.tasks = self.hold(TargetTasks(target, is_held=is_held))
        self.tasks.load(self.programs, self.types)
        self.write_programs(target)
        self.programs.attach()
        self.tasks.begin()

    def _read_types(self) -> Btf:
        """Read the kernel's types, by which programs place what they read. Raises MachineRefused where it has none."""
        try:
            return read_kernel_btf("/")
        except (OSError, ValueError) as error:
            raise MachineRefused(f"the kernel's type information cannot be read: {error}") from None

    def detach(self) -> None:
        """Detach the programs, and keep what is known of what they missed."""
        self.programs.detach()
        self._missed = self.programs.add_skipped(self.tasks.add_lost(Losses()))

    def let_go(self) -> None:
        """Close the programs and what was held, in the end or after a refusal."""
        self.programs.close()
        self._held.close()

    def add_missed(self, losses: Losses) -> Losses:
        """Add the runs of programs that the kernel passed over, and processes that were not followed."""
        return attrs.evolve(
            losses,
            dropped=losses.dropped + self._missed.dropped,
            skipped=losses.skipped + self._missed.skipped,
            reasons=(*losses.reasons, *self._missed.reasons),
        )

    def in_target_cost(self) -> InTargetCost:
        """Return what the programs ran; unknown where the kernel did not time them (kernel.bpf_stats_enabled)."""
        return self.programs.cost
