"""sched.switches, sched.migrations, sched.runqlat of processes: the scheduler's counts of each of their threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omn_kernel.procfs.task import find_sched_counter, parse_schedstat, parse_switches
from omn_kernel.threads import Parse, ThreadCollector, ThreadGrowth

from omn_core.api import MachineRefused

_MIGRATIONS = "se.nr_migrations"


def parse_account(content: bytes) -> dict[str, int]:
    """Parse a thread's schedstat by the names of the family's attributes."""
    account = parse_schedstat(content)
    return {"oncpu_ns": account.run_ns, "wait_ns": account.wait_ns, "slices": account.slices}


def parse_split(content: bytes) -> dict[str, int]:
    """Parse a thread's switches of its status by the names of the family's attributes."""
    voluntary, involuntary = parse_switches(content)
    return {"voluntary": voluntary, "involuntary": involuntary}


def get_migrations(content: bytes) -> dict[str, int]:
    """Return a thread's migrations of its sched file. Raises MachineRefused where the kernel writes none in it."""
    migrations = find_sched_counter(content, _MIGRATIONS)
    if migrations is None:
        raise MachineRefused(f"this kernel writes no {_MIGRATIONS} in a thread's sched file, so nothing counts them")
    return {"migrations": migrations}


class Switches(ThreadCollector):
    """How often each thread left its cpu, and beside it how long it ran, which is what it could leave one from."""

    def list_parts(self) -> Mapping[str, Parse]:
        """Read each thread's status, and its schedstat."""
        self._oncpu_ns = 0
        return {"status": parse_split, "schedstat": parse_account}

    def make_amounts(self, grown: Sequence[ThreadGrowth]) -> Mapping[str, Sequence[int]]:
        """Return the switches together and apart."""
        self._oncpu_ns += sum(row.by["oncpu_ns"] for row in grown)
        return {
            "switches": [row.by["voluntary"] + row.by["involuntary"] for row in grown],
            **{name: [row.by[name] for row in grown] for name in ("voluntary", "involuntary", "oncpu_ns")},
        }

    def fields(self) -> Mapping[str, int]:
        """Return `oncpu_ns` beside: how long the threads of the rows ran. A rate is over the window, not over this."""
        return {"oncpu_ns": self._oncpu_ns, **super().fields()}


class Migrations(ThreadCollector):
    """How often the scheduler moved each thread to another cpu."""

    def list_parts(self) -> Mapping[str, Parse]:
        """Read each thread's sched file, and its schedstat for the time that its process's clock is held against."""
        return {"sched": get_migrations, "schedstat": parse_account}

    def make_amounts(self, grown: Sequence[ThreadGrowth]) -> Mapping[str, Sequence[int]]:
        """Return the migrations."""
        return {"migrations": [row.by["migrations"] for row in grown]}


class Waits(ThreadCollector):
    """How long each thread was ready to run and had no cpu, and beside it how long it ran, in how many turns."""

    def list_parts(self) -> Mapping[str, Parse]:
        """Read each thread's schedstat."""
        return {"schedstat": parse_account}

    def make_amounts(self, grown: Sequence[ThreadGrowth]) -> Mapping[str, Sequence[int]]:
        """Return the account as the kernel keeps it."""
        return {name: [row.by[name] for row in grown] for name in ("wait_ns", "slices", "oncpu_ns")}
