"""Collections of garbage by a Python, from the place that it marks where one begins to that where it is done."""

from __future__ import annotations

import attrs
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.filters import TaskFilter
from omn_kernel.bpf.mark_arguments import MarkArgument, read_mark_argument
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9
from omn_kernel.bpf.task_states import TaskStates
from omn_kernel.bpf.tasks import TaskFields
from omn_kernel.bpf.tracing import ABSENT
from omn_kernel.bpf.transport import Transport

FIELDS = [("began_ns", "u8"), ("pause_ns", "i8"), ("generation", "i8"), ("collected", "i8")]
"""What is kept of a collection: `began_ns` is 0 for none."""


@attrs.frozen
class CollectionPrograms:
    """Writes the programs. `tasks` tells whose are kept, `running` keeps the one that each thread is in."""

    tasks: TaskFilter
    fields: TaskFields
    running: TaskStates
    transport: Transport

    def write_start(
        self, arguments: tuple[MarkArgument | None, ...], program: KernelAssembly, *, number: int | None
    ) -> None:
        """Write the place where a collection begins (gc__start), with its generation."""
        program.move(R6, R1)
        program.point_to_current(R7)
        self.tasks.keep(program, R7, "done")
        collection = program.reserve(self.running.state)
        program.clear(collection)
        _set_argument(program, collection, "generation", arguments)
        program.set(collection, "collected", ABSENT)
        program.read_process(R1, R7)
        program.set(collection, "process", R1)
        self.fields.write(program, collection, R7)
        read_clock(program, R0)
        program.set(collection, "began_ns", R0)
        self.running.put(program, R7, collection)
        program.label("done")
        program.leave(0)

    def write_done(
        self, arguments: tuple[MarkArgument | None, ...], program: KernelAssembly, *, number: int | None
    ) -> None:
        """Write the place where one is done (gc__done), with how many objects it found that nobody reaches."""
        program.move(R6, R1)
        # What follows is no longer the collection's time.
        read_clock(program, R8)
        program.point_to_current(R7)
        collection = self.running.find_begun(program, R7, "began_ns", at=R9, began=R1, otherwise="done")
        program.set(collection, "ns", R8)
        program.compute(R8, "-=", R1)
        program.set(collection, "pause_ns", R8)
        _set_argument(program, collection, "collected", arguments)
        self.transport.write(program, collection, R6)
        program.set(collection, "began_ns", 0)
        program.label("done")
        program.leave(0)


def _set_argument(
    program: KernelAssembly, collection: Record, field: str, arguments: tuple[MarkArgument | None, ...]
) -> None:
    """Set a field to the one argument of a place; absent where that cannot be read."""
    program.set(collection, field, ABSENT)
    if arguments and arguments[0] is not None:
        read_mark_argument(program, R8, R6, arguments[0])
        with program.when(R0, "==", 0):
            program.set(collection, field, R8)
