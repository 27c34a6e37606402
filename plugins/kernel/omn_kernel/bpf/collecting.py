"""What collectors share whose events eBPF programs make: the programs' life, what they cost and what they missed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TypeVar

import attrs

from omn_core.api import (
    Batch,
    BoundTarget,
    CollectorBase,
    InTargetCost,
    Losses,
    MachineRefused,
    ResolvedRequest,
    RunContext,
)
from omn_kernel.bpf.attaching import AnyHook
from omn_kernel.bpf.followers import RecordFollower
from omn_kernel.bpf.hooks import Function, RawTracepoint, TypedTracepoint
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.record_arguments import RECORDED, reads_records
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.bpf.target_tasks import RecordedTasks, TargetTasks, TypedTasks
from omn_kernel.bpf.task_states import FORGETTING, MOST_THREADS, TaskStates
from omn_kernel.btf.kernel import read_kernel_btf
from omn_kernel.btf.types import Btf
from omn_kernel.polling import Closable
from omn_kernel.tracepoints import is_described

Held = TypeVar("Held", bound=Closable)
Counts = Mapping[int, int]
Counted = tuple[Counts, Counts]
"""What programs saw and what the kernel counted, in this order of reading where both are read after they began."""


class ProgramCollector(CollectorBase, ABC):
    """A collector of programs in the kernel. A subclass opens its maps and writes its programs.

    `programs` are loaded by `write_programs` for the target that is there then, and attached all together; `tasks`
    keeps what is the target's. Whatever is refused on the way, nothing is left in the kernel.

    `reads_records` says that the backend is of classic tracepoints, whose programs do without the kernel's types.
    """

    hears_all = True

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open what needs no target."""
        super().prepare(resolved, context)
        self.reads_records = reads_records(resolved)
        self.programs = RunningPrograms()
        self._missed = Losses()
        self._counters: list[tuple[LostCounter, str]] = []
        self._counted_before: Counted | None = None
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
        self.load_event(FORGETTING, states.write_forgetting)

    def load_event(self, name: str, write: Callable[[TaskAssembly], None], *, call: str | None = None) -> None:
        """Load a program that is written for either: on the classic tracepoint where records are read, else on the raw.

        `call` is the one whose own classic tracepoint is meant, of sys_enter and sys_exit (`RecordedAssembly`). Raises
        MachineRefused as `load_tracepoint` does, and where tracefs is closed.
        """
        if not self.reads_records:
            self.load_tracepoint(name, write)
            return
        program = self._make_recorded(f"omn_{name}", name, call)
        write(program)
        self.programs.load(program, program.hook)

    def make_raw_program(self, name: str, tracepoint: str) -> TaskAssembly:
        """Make a program for a raw tracepoint that is run by hand, and asks of no task but the one that its cpu has."""
        if self.reads_records:
            return self._make_recorded(name, tracepoint, None)
        return KernelAssembly(name, self.types, has_typed_pointers=False)

    def _make_recorded(self, name: str, tracepoint: str, call: str | None) -> RecordedAssembly:
        follower = self.tasks.follower
        return RecordedAssembly(name, tracepoint, follower if isinstance(follower, RecordFollower) else None, call=call)

    def has_event(self, name: str) -> bool:
        """Tell whether this kernel has a tracepoint that `load_event` would load for."""
        if self.reads_records:
            return is_described(f"{RECORDED[name].category}/{name}")
        return self.types.find_tracepoint(name) is not None

    def load_tracepoint(self, name: str, write: Callable[[KernelAssembly], None]) -> None:
        """Load a program on a tracepoint, with typed pointers where the kernel takes it so, else with numbers.

        The program is written once more for the second, and bears the tracepoint's name. Raises MachineRefused where
        the kernel takes neither.
        """
        self._load_either(name, write, TypedTracepoint(name, self.types), RawTracepoint(name))

    def load_function(self, name: str, write: Callable[[KernelAssembly], None], *, is_exit: bool = False) -> None:
        """Load a program on a function of the kernel, where it is entered or returns, as `load_tracepoint` does."""
        hook = Function(name, self.types, is_exit)
        self._load_either(name, write, hook, hook)

    def _load_either(
        self, name: str, write: Callable[[KernelAssembly], None], typed: AnyHook, otherwise: AnyHook
    ) -> None:
        try:
            self._load_kernel(name, write, typed, has_typed_pointers=True)
        except MachineRefused:
            self._load_kernel(name, write, otherwise, has_typed_pointers=False)

    def _load_kernel(
        self, name: str, write: Callable[[KernelAssembly], None], hook: AnyHook, *, has_typed_pointers: bool
    ) -> None:
        program = KernelAssembly(f"omn_{name}", self.types, has_typed_pointers=has_typed_pointers)
        write(program)
        self.programs.load(program, hook)

    def attach(self, target: BoundTarget) -> None:
        """Load the programs and attach them, those that follow the target's processes before those that ask."""
        self.tasks = self.hold(self._find_tasks(target))
        self.tasks.load(self.programs)
        if self.tasks.follower is not None:
            self.count_lost(self.tasks.follower.lost, "processes found no room among those that are followed")
        self.write_programs(target)
        self.programs.attach()
        self.tasks.begin()
        seen = self.read_seen()
        self._counted_before = (seen, self.read_made())

    def _find_tasks(self, target: BoundTarget) -> TargetTasks:
        is_held = self.resolved.begins_held(target)
        if self.reads_records:
            return RecordedTasks(target, is_held=is_held)
        self.types = self._read_types()
        return TypedTasks(target, self.types, is_held=is_held)

    def _read_types(self) -> Btf:
        """Read the kernel's types, by which programs place what they read. Raises MachineRefused where it has none."""
        try:
            return read_kernel_btf("/")
        except (OSError, ValueError) as error:
            raise MachineRefused(f"the kernel's type information cannot be read: {error}") from None

    def stop(self) -> Batch:
        """Detach the programs. What they added since the closing read is of no window."""
        try:
            if self.programs.are_attached:
                self.detach()
        finally:
            self.let_go()
        return Batch.empty()

    def detach(self) -> None:
        """Detach the programs, and keep what is known of what they missed."""
        made = self.read_made()
        self.programs.detach()
        lost = [(counter.read_count(), reason) for counter, reason in self._counters]
        reasons = tuple(f"{count} {reason}" for count, reason in lost if count)
        missed = Losses(dropped=sum(count for count, _ in lost), reasons=reasons)
        self._missed = self.programs.add_skipped(missed)
        if self._counted_before is not None:
            self.note_unseen(compute_unseen(self._counted_before, (self.read_seen(), made)))

    def read_made(self) -> Counts:
        """Read how many events there ever were by the kernel's own counts, each under a name; nothing without one.

        It is asked once the programs are attached, and before they are detached: what a count grew by and no program
        saw is lost.
        """
        return {}

    def read_seen(self) -> Counts:
        """Read how many events of each count programs saw so far; it is asked before the former, and after it."""
        return {}

    def note_unseen(self, count: int, reason: str = "were counted by the kernel and passed no tracepoint") -> None:
        """Lose events that the kernel counted and no program saw, but those whose programs it passed over.

        The reason stands after the number of them.
        """
        unseen = count - self._missed.skipped
        if unseen > 0:
            reasons = (*self._missed.reasons, f"{unseen} {reason}")
            self._missed = attrs.evolve(self._missed, dropped=self._missed.dropped + unseen, reasons=reasons)

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


def compute_unseen(before: Counted, after: Counted) -> int:
    """Compute how many events the kernel counted between two readings that no program saw, of the counts in both.

    What came between the readings of the two makes it less, never more.
    """
    (seen_before, made_before), (seen_after, made_after) = before, after
    grown = (
        made_after[name] - made_before[name] - (seen_after.get(name, 0) - seen_before.get(name, 0))
        for name in made_before.keys() & made_after.keys()
    )
    return sum(max(0, count) for count in grown)
