"""What a family writes of a source that programs measure task by task: the programs, and what they hand over.

    class Waits(Tracer):
        measured = ("wait_ns",)

        def load(self, tracing: Tracing) -> None:
            tracing.load_tracepoint("sched_switch", lambda program: self.write(program, tracing))

The collector around it (`bpf.traced`) finds whose tasks they are, and whether each event is handed over or all are
added up in the kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import attrs

from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.registers import Register
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.btf.types import Btf
from omn_kernel.polling import Closable

Held = TypeVar("Held", bound=Closable)
ABSENT = -1
"""What a measured value, or a label that is a number, is set to where the event does not have it."""


@attrs.frozen(repr=False)
class Label:
    """What an event is, beside how much: a key of the source or an attribute, which divides where that is asked.

    `layout` is how programs set it: a number, or `S16` and the like for a text. `spell` names a number where it has a
    name. `is_own` says that hardly two events have the same, so that adding them up by it would add up nothing.
    """

    name: str
    layout: str = "i8"
    spell: Callable[[int], str | None] | None = None
    is_own: bool = False


class Tracing(Protocol):
    """What a tracer is lent by the collector around it: the kernel's types, whose tasks are asked for, the programs."""

    types: Btf
    tasks: TargetTasks
    programs: RunningPrograms

    def hold(self, held: Held) -> Held:
        """Close something with the programs, and return it."""

    def count_lost(self, counter: LostCounter, reason: str) -> None:
        """Count in the answer what programs count as lost, with the reason after the number of them."""

    def load_tracepoint(self, name: str, write: Callable[[KernelAssembly], None]) -> None:
        """Load a program on a tracepoint (`ProgramCollector.load_tracepoint`)."""

    def load_event(self, name: str, write: Callable[[TaskAssembly], None], *, call: str | None = None) -> None:
        """Load a program on a tracepoint, raw or classic as the backend is (`ProgramCollector.load_event`)."""

    def load_states(self, states: TaskStates) -> None:
        """Load what forgets threads, and count those that found no room (`ProgramCollector.load_states`)."""

    def reserve(self, program: TaskAssembly) -> Record:
        """Reserve a place for an event's measured values and labels, each under its name, numbers of 8 bytes."""

    def write(
        self, program: TaskAssembly, event: Record, task: Register, context: Register, *, at: Register | None = None
    ) -> None:
        """Emit what hands an event of a task over. R0 to R5 hold nothing of the program's after it.

        `context` is what R1 held when the program began, `at` when it was where that is not now; all these registers
        are of R6 to R9.
        """


class Tracer(ABC):
    """The programs of one source. `measured` are the values of an event, the first the one that is asked by itself.

    `unit` names the attribute of which each event is one, such as `slices`, None where there is none; it is what a
    source measures of which nothing else is. `labels` are what an event is.
    """

    measured: tuple[str, ...] = ()
    unit: str | None = None
    labels: tuple[Label, ...] = ()

    @abstractmethod
    def load(self, tracing: Tracing) -> None:
        """Load the programs, those first that others rely on."""

    def read_made(self) -> int | None:
        """Read how many events of the target there ever were by the kernel's own count; None where it keeps none.

        It is asked once the programs are attached, and before they are detached: what it grew by and no program saw is
        lost.
        """
        return None

    def read_seen(self) -> int:
        """Read how many events the programs saw, where the kernel keeps a count of its own."""
        return 0

    def read_fields(self) -> Mapping[str, int]:
        """Read what the answer tells of beside its events, when the programs are detached; nothing by itself."""
        return {}
