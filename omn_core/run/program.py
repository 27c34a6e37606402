"""The launched program with all it starts: held, run, ended, reaped, and the terminal it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from omn_core.model.watched import Adopted
from omn_core.run import linux
from omn_core.run.binding import refuse_foreign_proc
from omn_core.run.cost import ProgramCpu
from omn_core.run.launcher import Launched, LaunchPlan, launch
from omn_core.run.terminal import TerminalState, find_terminal, restore_terminal
from omn_core.run.tree import Tree

if TYPE_CHECKING:
    from omn_core.model.result import ProgramResult


@attrs.define(eq=False, repr=False)
class Program:
    """A program that omn started. Nothing of it is left when `finish` or `give_up` returns, or `notes` says what is."""

    launched: Launched
    tree: Tree
    terminal: TerminalState | None
    notes: list[str] = attrs.field(factory=list)
    is_reaped: bool = False

    def finish(self) -> None:
        """End what still runs of its tree, reap it, and put the terminal back where omn had to end the program."""
        was_running = self.launched.ended_ns is None
        self.tree.end()
        if self.launched.pid not in self.tree.survivors:
            self.launched.wait()
            self.launched.note_end()
            self.is_reaped = True
            self.tree.reap(self.launched.pid)
        if was_running and self.launched.exit == {"signal": "SIGKILL"}:
            self.notes.append("the window ended before the program did, and omn ended it with all it had started")
        if was_running and self.terminal is not None:
            restore_terminal(self.terminal)
        self.notes += [
            f"process {pid} ({name!r}) could not be ended and runs on" for pid, name in self.tree.survivors.items()
        ]

    def give_up(self) -> None:
        """End it however far it came, and let go of it. After `finish` only descriptors are left to close."""
        if self.launched.released_ns is None:
            self.launched.abandon()
        elif not self.is_reaped:
            self.finish()
        self.launched.close()

    def adopted(self) -> tuple[Adopted, ...]:
        """Return the orphans that outlived what started them."""
        return tuple(self.tree.adopted)

    def result(self, cpu: ProgramCpu | None) -> ProgramResult:
        """Return what became of it. Its lifetime runs from its release until its end was seen, None while it runs."""
        from omn_core.model.result import ProgramResult  # after the window, as in `CostAccount.compute`

        launched = self.launched
        lifetime_ns = None
        if launched.ended_ns is not None and launched.released_ns is not None:
            lifetime_ns = launched.ended_ns - launched.released_ns
        total_ns, own_ns = (None, None) if cpu is None else (cpu.total_ns(), cpu.own_ns())
        return ProgramResult(launched.plan.arguments, launched.pid, launched.exit, lifetime_ns, total_ns, own_ns)


def start_program(plan: LaunchPlan, *, adopts: bool) -> Program:
    """Start a program and hold it before its exec. Raises as `launch` does, and where /proc shows other numbers.

    `adopts` says that omn is the subreaper of what it starts and has no children of its own from here on.
    """
    refuse_foreign_proc()
    terminal = find_terminal()
    set_aside = frozenset(linux.read_children())
    launched = launch(plan)
    return Program(launched, Tree(launched.pid, launched.start_ticks, adopts, set_aside), terminal)
