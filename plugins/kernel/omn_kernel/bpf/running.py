"""The programs of one collector: loaded and attached together, let go of with the kernel's account of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack

import attrs

from omn_core.api import InTargetCost, Losses
from omn_kernel.bpf.assembly import Assembly
from omn_kernel.bpf.attaching import AnyHook, Link, attach
from omn_kernel.bpf.hooks import UserProbes
from omn_kernel.bpf.loading import Account, LoadedProgram, load


class RunningPrograms:
    """Programs that are loaded, then run, then are gone. Closing is safe at any time, and leaves nothing behind."""

    def __init__(self) -> None:
        self._programs: list[tuple[LoadedProgram, AnyHook]] = []
        self._links: list[tuple[Link, AnyHook]] = []
        self._held = ExitStack()
        self._accounts: list[Account] = []
        self._runs = False
        self._attached = 0

    def load(self, program: Assembly, hook: AnyHook) -> None:
        """Load a program for what it will be attached to. Raises as `loading.load` does."""
        self._programs.append((self._held.enter_context(load(program.assemble(), hook)), hook))

    def attach(self) -> None:
        """Attach what is loaded and not attached yet, in that order. Raises as `attaching.attach` does."""
        for program, hook in self._programs[self._attached :]:
            self._links.append((attach(program, hook), hook))
            self._attached += 1
        self._runs = True

    def detach(self) -> None:
        """Detach every program, and read what the kernel counted of each before it is unloaded."""
        self._end_links()
        self._accounts += [program.read_account() for program, _ in self._programs]
        self.close()

    def close(self) -> None:
        """Let go of every program."""
        self._runs = False
        self._end_links()
        self._programs, self._attached = [], 0
        self._held.close()

    def _end_links(self) -> None:
        """End every link, those of programs' functions at once and then the others, the last one first."""
        links, self._links = self._links, []
        _close_together([link for link, hook in links if isinstance(hook, UserProbes)])
        for link, _ in reversed(links):
            link.close()

    @property
    def cost(self) -> InTargetCost:
        """What the programs ran so far, on whatever cpu, in whoever's time; unknown where the kernel times none."""
        running = [program.read_account() for program, _ in self._programs] if self._runs else []
        times = [account.run_time_ns for account in (*self._accounts, *running)]
        known = [spent for spent in times if spent is not None]
        return InTargetCost(sum(known) if known and len(known) == len(times) else None)

    @property
    def are_attached(self) -> bool:
        """Whether they are loaded and run."""
        return self._runs

    def add_skipped(self, losses: Losses) -> Losses:
        """Add the runs that the kernel passed over, because a program was running on that cpu already."""
        skipped = sum(account.skipped or 0 for account in self._accounts)
        if not skipped:
            return losses
        reason = "the kernel passed programs over that were running on the cpu already"
        return attrs.evolve(losses, skipped=losses.skipped + skipped, reasons=(*losses.reasons, reason))


def _close_together(links: Sequence[Link]) -> None:
    """Close links of which the kernel waits at each until nobody is inside any more: all of them wait at once."""
    waiting = []
    for link in links[1:]:
        thread = threading.Thread(target=link.close)
        try:
            thread.start()
        except RuntimeError:  # this process may have no more threads
            link.close()
        else:
            waiting.append(thread)
    for link in links[:1]:
        link.close()
    for thread in waiting:
        thread.join()
