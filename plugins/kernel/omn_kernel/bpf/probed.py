"""Collectors of what programs make on functions of a target's own files: a library's, an allocator's, its own."""

from __future__ import annotations

from abc import ABC, abstractmethod

from omn_core.api import Batch, BoundTarget, MachineRefused, ResolvedRequest, RunContext
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.rows import RowCollector
from omn_kernel.bpf.stacked import StackedRecords
from omn_kernel.bpf.user_functions import Chooses, UserFunctions


class ProbedPrograms(ProgramCollector, ABC):
    """A collector whose programs are probes. A subclass chooses them, and looks for more of them (`look`) at each tick.

    `sought` is what a refusal names where nothing that a process maps has any, and `remedy` what may be asked
    instead; `is_multi` says that the places of each program are one link (Linux 6.6).
    """

    sought: str
    remedy: str
    is_multi = False

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open what needs no target."""
        self._files: tuple[str, ...] = ()
        self._late: tuple[str, ...] = ()
        super().prepare(resolved, context)

    @abstractmethod
    def choose_functions(self, target: BoundTarget) -> Chooses:
        """Return what chooses the programs for each file, `SameFunctions` where they are the same for all."""

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs for what the target's processes map, or what a program that is held will."""
        choose = self.choose_functions(target)
        self._functions = self.hold(UserFunctions(self.programs, self.types, choose, is_multi=self.is_multi))
        is_held = self.resolved.begins_held(target)
        self._functions.load(target, is_held=is_held)
        if not is_held and not self._functions.files:
            named = " ".join(str(handle.pid) for handle in target.processes)
            raise MachineRefused(f"no file that process {named} maps has a {self.sought}", self.remedy)

    def attach(self, target: BoundTarget) -> None:
        """Attach, and probe what the processes map that descend from the target's."""
        super().attach(target)
        self.look()
        self._functions.late.clear()

    def look(self) -> None:
        """Probe what processes map that began or executed another program."""
        self._functions.look(self.tasks.list_processes())

    def detach(self) -> None:
        """Keep which files were probed."""
        super().detach()
        self._files, self._late = tuple(self._functions.files), tuple(self._functions.late)

    def facts(self) -> tuple[str, ...]:
        """Say whose functions were probed, and what could not be named."""
        none = f"no file that was mapped has a {self.sought}"
        return (f"probed: {', '.join(self._files)}" if self._files else none, *super().facts())

    def degradations(self) -> tuple[str, ...]:
        """Say which files were probed after a process had mapped them."""
        late = f"probed after a process had mapped them, what it called before is not there: {', '.join(self._late)}"
        return (*([late] if self._late else []), *super().degradations())


class ProbedRecords(ProbedPrograms, StackedRecords, ABC):
    """A collector of records that probes make, each with its stack."""

    # The kernel's part would be that of the trap.
    takes_user_stacks_only = True

    def sample(self, now_ns: int) -> Batch:
        """Copy what came, and probe what processes map that began or executed another program."""
        self.look()
        return super().sample(now_ns)


class ProbedRows(ProbedPrograms, RowCollector, ABC):
    """A collector of rows that probes add up."""

    def sample(self, now_ns: int) -> Batch:
        """Take the rows, and probe what processes map that began or executed another program."""
        self.look()
        return super().sample(now_ns)
