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
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol, TypeVar

from omn_core.api import MachineRefused
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.hooks import RawTracepoint, TypedTracepoint
from omn_kernel.bpf.losses import LostCounter
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import Register
from omn_kernel.bpf.running import RunningPrograms
from omn_kernel.btf.types import Btf
from omn_kernel.polling import Closable

Held = TypeVar("Held", bound=Closable)
ABSENT = -1
"""What a measured value is set to where the event does not have it."""


class Sink(Protocol):
    """Where the events of programs go."""

    def reserve(self, program: KernelAssembly) -> Record:
        """Reserve a place for an event's measured values, each of 8 bytes under its name."""

    def write(self, program: KernelAssembly, event: Record, task: Register, context: Register) -> None:
        """Emit what hands an event of a task over. R0 to R5 hold nothing of the program's after it.

        `context` is what R1 held when the program began; both registers are of R6 to R9.
        """


class Tracing:
    """What a tracer is lent: the kernel's types, whose tasks are asked for, where events go, the programs' life."""

    def __init__(self, programs: RunningPrograms, types: Btf, tasks: TaskFilter, sink: Sink) -> None:
        self.programs = programs
        self.types = types
        self.tasks = tasks
        self.sink = sink
        self._held = ExitStack()
        self._lost: list[tuple[LostCounter, str]] = []

    def hold(self, held: Held) -> Held:
        """Close something with the programs, and return it."""
        self._held.callback(held.close)
        return held

    def count_lost(self, counter: LostCounter, reason: str) -> None:
        """Say in the answer what programs count as lost, with the reason."""
        self._lost.append((counter, reason))

    def read_lost(self) -> list[tuple[int, str]]:
        """Read how much was lost so far, and why."""
        return [(counter.read_count(), reason) for counter, reason in self._lost]

    def close(self) -> None:
        """Let go of what was held."""
        self._held.close()

    def load_tracepoint(self, name: str, write: Callable[[KernelAssembly], None]) -> None:
        """Load a program on a tracepoint, with typed pointers where the kernel takes it so, else with numbers.

        The program is written once more for the second, and bears the tracepoint's name. Raises MachineRefused where
        the kernel takes neither.
        """
        try:
            self._load(name, write, has_typed_pointers=True)
        except MachineRefused:
            self._load(name, write, has_typed_pointers=False)

    def _load(self, name: str, write: Callable[[KernelAssembly], None], *, has_typed_pointers: bool) -> None:
        program = KernelAssembly(f"omn_{name}", self.types, has_typed_pointers=has_typed_pointers)
        write(program)
        hook = TypedTracepoint(name, self.types) if has_typed_pointers else RawTracepoint(name)
        self.programs.load(program, hook)


class Tracer(ABC):
    """The programs of one source. `measured` are the values of an event, the first the one that is asked by itself.

    `unit` names the attribute of which each event is one, such as `slices`, None where there is none.
    """

    measured: tuple[str, ...]
    unit: str | None = None

    @abstractmethod
    def load(self, tracing: Tracing) -> None:
        """Load the programs, those first that others rely on."""
