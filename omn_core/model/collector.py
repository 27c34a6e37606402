"""The life of a collector, and what it is handed. Each call's meaning is fixed here and holds for every plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from omn_core.model.batch import Batch, Names
from omn_core.model.losses import Losses
from omn_core.model.resolved import ResolvedRequest
from omn_core.model.stacks import Stacks
from omn_core.model.target import Target

MEMORY_BYTES = 256 << 20
"""What one request may hold undecoded unless the run says otherwise."""


@attrs.frozen(repr=False)
class RunContext:
    """What a run lends its collectors.

    `names` is the run's string table, `stacks` its table of stacks; `clock` reads CLOCK_MONOTONIC in nanoseconds;
    `sysroot` stands before /proc and /sys (a fixture folder in tests); `memory_bytes` bounds what one request may hold
    undecoded. `shared` is what several requests of a run have together, each thing under a name of its family's.
    """

    names: Names
    clock: Callable[[], int]
    sysroot: str = "/"
    memory_bytes: int = MEMORY_BYTES
    stacks: Stacks = attrs.field(factory=Stacks)
    shared: dict[str, object] = attrs.field(factory=dict)


@attrs.frozen(repr=False)
class ProcessHandle:
    """A process of the target, held so that its number cannot come to mean another one.

    `pidfd` becomes readable when it exits; None for a process the caller may not open. `start_ticks` is field 22 of
    /proc/<pid>/stat.
    """

    pid: int
    pidfd: int | None
    start_ticks: int


@attrs.frozen(repr=False)
class BoundTarget:
    """A target found on this machine.

    `processes` are its processes (one for a launch, each pid of `--pid a,b`; none for the machine), `launched` whether
    omn started them and `find_orphans` whom of their descendants omn adopted and has not reaped; `tid` the thread of a
    thread target; `cpus` the cpus of a cpu target; `place` what a plugin's
    binder found for a kind of its own (a cgroup, an interface); `described` is what results say of it, and `facts`
    sentences on how it was found that their readers should know. For a container, `target` is its cgroup.
    """

    target: Target
    scope: str
    processes: tuple[ProcessHandle, ...] = ()
    launched: bool = False
    tid: int | None = None
    cpus: tuple[int, ...] = ()
    place: Any = None
    described: Mapping[str, Any] = attrs.field(factory=dict)
    facts: tuple[str, ...] = ()
    find_orphans: Callable[[], Sequence[int]] = tuple


@attrs.frozen(repr=False)
class InTargetCost:
    """What a mechanism spent inside the target, cpu nanoseconds; None where nothing accounts for it."""

    cpu_ns: int | None
    left_out: int = 0


class TargetGone(Exception):
    """Raised by `sample` when the target has ended: the end of the request, never a loss."""


class Collector(Protocol):
    """One mechanism answering one request. Calls come in this order, each once but `sample`.

    `prepare` -> `attach` -> `sample`, every tick and once more at the close -> `stop` -> the accounts below. Where the
    run launches a program, `change_environment` comes between the first two, of a collector that has it.
    A Refused raised by `prepare` or `attach` refuses the session before the program runs; any other exception there
    fails the run before it began. One raised later ends that request alone: the others run on, every result is
    written, and the run fails then.

    `reads_at_open` says that a reading describes the moment it is made (a gauge), so that a polled request is read at
    the opening of its window too, or at once after a launched program's exec. Where it is false, or not there at all,
    a reading describes the interval before it: `attach` reads the baseline, and the first `sample` comes one interval
    after the opening.

    `reads_between`, where it is there and true, says that some of what is counted is gone at the close (the account of
    a thread that ended): a count is then read once a second too, and its readings add up.

    `hears_all`, where it is there and true, says that it tells of every occurrence: no event is then a count of 0.

    `stop` also comes, alone, to a collector that was prepared and never attached because the run was given up or ended
    before: it lets go, and what it raises then is passed over. A process that `prepare` or `attach` starts must be
    waited for by the end of `stop`: the run ends what is left as the program's.
    """

    reads_at_open: bool

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Open and load what needs no target. Called before the program exists."""

    def change_environment(self, environment: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Return the variables that the program to be launched gets in place of, or beside, those that it would get.

        Each request's collector is asked in turn, of what those before it left. A Refused is as one of `prepare`.
        """

    def attach(self, target: BoundTarget) -> None:
        """Bind to the target and read baselines. A launched program exists and has not yet executed."""

    def sample(self, now_ns: int) -> Batch:
        """Read once and return what is new. The last call, at the close of the window, is the closing read."""

    def stop(self) -> Batch:
        """Let go of the target and return what is already buffered; read nothing again."""

    def losses(self) -> Losses:
        """What was lost so far."""

    def fields(self) -> Mapping[str, int]:
        """Counts by name that the result carries."""

    def facts(self) -> tuple[str, ...]:
        """Sentences a reader of the result should know."""

    def degradations(self) -> tuple[str, ...]:
        """What this run lost in meaning, beyond what the catalog says of the backend."""

    def row_stamp(self) -> str | None:
        """How rows are stamped when not at their own event (`drain`), else None."""

    def in_target_cost(self) -> InTargetCost:
        """What the mechanism spent inside the target in the window; under a budget asked in the window too: so far."""

    def one_time_cpu_ns(self) -> int:
        """What omn spent after the window's close once, whatever the window (fetching symbols): cpu nanoseconds."""

    def failure(self) -> str | None:
        """Why the run must fail although its results stand, else None."""


class CollectorBase:
    """The answers of a collector that has nothing special to say. A subclass defines attach and sample at least."""

    reads_at_open: bool = False
    reads_between: bool = False
    hears_all: bool = False
    resolved: ResolvedRequest
    context: RunContext

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Keep the request and the context."""
        self.resolved = resolved
        self.context = context

    def change_environment(self, environment: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Change nothing of what a program is started with."""
        return {}

    def stop(self) -> Batch:
        """Return nothing: a polled reading is never buffered."""
        return Batch.empty()

    def losses(self) -> Losses:
        """Return no loss."""
        return Losses()

    def fields(self) -> Mapping[str, int]:
        """Return no counts."""
        return {}

    def facts(self) -> tuple[str, ...]:
        """Return no facts."""
        return ()

    def degradations(self) -> tuple[str, ...]:
        """Return no degradations."""
        return ()

    def row_stamp(self) -> str | None:
        """Return None: rows are stamped at their own reading."""
        return None

    def in_target_cost(self) -> InTargetCost:
        """Return zero: reading a file spends nothing inside the target."""
        return InTargetCost(0)

    def one_time_cpu_ns(self) -> int:
        """Return zero: nothing is done once whatever the window."""
        return 0

    def failure(self) -> str | None:
        """Return None: nothing here can break the program."""
        return None
