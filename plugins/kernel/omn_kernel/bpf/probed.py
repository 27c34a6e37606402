"""Collectors of records that programs make on functions of a target's own files: a library's, an allocator's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from omn_core.api import Batch, BoundTarget, MachineRefused
from omn_kernel.bpf.stacked import StackedRecords
from omn_kernel.bpf.user_functions import Chooses, UserFunctions


class ProbedRecords(StackedRecords, ABC):
    """A collector whose programs are probes. A subclass chooses them.

    `function` is the one that a refusal names where nothing that a process maps has any, and `remedy` what may be asked
    instead; `is_multi` says that the places of each program are one link (Linux 6.6).
    """

    function: str
    remedy: str
    is_multi = False
    # The kernel's part would be that of the trap.
    takes_user_stacks_only = True

    def open_maps(self) -> None:
        """Open the way that records come."""
        super().open_maps()
        self._files: tuple[str, ...] = ()
        self._late: tuple[str, ...] = ()

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
            raise MachineRefused(
                f"no file that process {named} maps has a function {self.function} by its symbols", self.remedy
            )

    def attach(self, target: BoundTarget) -> None:
        """Attach, and probe what the processes map that descend from the target's."""
        super().attach(target)
        self._functions.look(self.tasks.list_processes())
        self._functions.late.clear()

    def sample(self, now_ns: int) -> Batch:
        """Copy what came, and probe what processes map that began or executed another program."""
        self._functions.look(self.tasks.list_processes())
        return super().sample(now_ns)

    def detach(self) -> None:
        """Keep which files were probed."""
        super().detach()
        self._files, self._late = tuple(self._functions.files), tuple(self._functions.late)

    def facts(self) -> tuple[str, ...]:
        """Say whose functions were probed, and what could not be named."""
        none = f"no file that was mapped has a function {self.function} by its symbols"
        return (f"probed: {', '.join(self._files)}" if self._files else none, *super().facts())

    def degradations(self) -> tuple[str, ...]:
        """Say which files were probed after a process had mapped them."""
        late = f"probed after a process had mapped them, what it called before is not there: {', '.join(self._late)}"
        return (*([late] if self._late else []), *super().degradations())
