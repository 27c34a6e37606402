"""What collectors share whose events eBPF programs make: the programs' life, what they cost and what they missed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import attrs

from omn_core.api import BoundTarget, CollectorBase, InTargetCost, Losses, MachineRefused, ResolvedRequest, RunContext
from omn_kernel.bpf.hooks import RawTracepoint, TypedTracepoint
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.task_states import MOST_THREADS, TaskStates
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.btf.types import Btf
from omn_kernel.polling import Closable

Held = TypeVar("Held", bound=Closable)


class ProgramCollector(CollectorBase, ABC):
    """A collector of programs in the kernel. A subclass opens its maps and writes its programs.

    `programs` are loaded by `write_programs` for the target that is there then, and attached all together; `tasks`
    keeps what is the target's. Whatever is refused on the way, nothing is left in the kernel.
    """

    hears_all = True

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open what needs no target."""
        super().prepare(resolved, context)
        self.programs = RunningPrograms()
        self._missed = Losses()
        self._counters: list[tuple[LostCounter, str]] = []
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

    def count_lost(self, counter: LostCounter, reason: str) -> None:
        """Count in the answer what programs count as lost, with the reason after the number of them."""
        self._counters.append((counter, reason))

    def load_states(self, states: TaskStates) -> None:
        """Load what forgets threads, before the programs that remember them, and count those that found no room."""
        self.count_lost(states.lost, f"threads found no room among the {MOST_THREADS} that are remembered")
        for program, hook in states.write_programs(self.types):
            self.programs.load(program, hook)

    def load_tracepoint(self, name: str, write: Callable[[KernelAssembly], None]) -> None:
        """Load a program on a tracepoint, with typed pointers where the kernel takes it so, else with numbers.

        The program is written once more for the second, and bears the tracepoint's name. Raises MachineRefused where
        the kernel takes neither.
        """
        try:
            self._load_tracepoint(name, write, has_typed_pointers=True)
        except MachineRefused:
            self._load_tracepoint(name, write, has_typed_pointers=False)

    def _load_tracepoint(self, name: str, write: Callable[[KernelAssembly], None], *, has_typed_pointers: bool) -> None:
        program = KernelAssembly(f"omn_{name}", self.types, has_typed_pointers=has_typed_pointers)
        write(program)
        hook = TypedTracepoint(name, self.types) if has_typed_pointers else RawTracepoint(name)
        self.programs.load(program, hook)

    def attach(self, target: BoundTarget) -> None:
        """Load the programs and attach them, those that follow the target's processes before those that ask."""
        is_held = self.resolved.begins_held(target)
        self.types = self._read_types()
        self.tasks = self.hold(TargetTasks(target, is_held=is_held))
        self.tasks.load(self.programs, self.types)
        if self.tasks.follower is not None:
            self.count_lost(self.tasks.follower.lost, "processes found no room among those that are followed")
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
        lost = [(counter.read_count(), reason) for counter, reason in self._counters]
        reasons = tuple(f"{count} {reason}" for count, reason in lost if count)
        missed = Losses(dropped=sum(count for count, _ in lost), reasons=reasons)
        self._missed = self.programs.add_skipped(missed)

    def let_go(self) -> None:
        """Close the programs and what was held, in the end or after a refusal."""
        self.programs.close()
        self._held.close()

    def add_missed(self, losses: Losses) -> Losses:
        """Add the runs of programs that the kernel passed over, and what the programs found no room for."""
        return attrs.evolve(
            losses,
            dropped=losses.dropped + self._missed.dropped,
            skipped=losses.skipped + self._missed.skipped,
            reasons=(*losses.reasons, *self._missed.reasons),
        )

    def in_target_cost(self) -> InTargetCost:
        """Return what the programs ran; unknown where the kernel did not time them (kernel.bpf_stats_enabled)."""
        return self.programs.cost
