"""What the kernel decides about tasks whose memory lies on another node (task_numa_migrate).

It moves a task to a cpu of that node, swaps it with a task there, or finds no place and lets it stick where it is.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R8, R9, Register
from omn_kernel.bpf.tracing import ABSENT, Label, Tracer, Tracing
from omn_kernel.sysfs import find_cpu_nodes, read_cpus

DECISIONS = ("move", "swap", "stick")
"""What each is called, in the order of their numbers here."""
_CPUS = {"move": (1, 2), "swap": (1, 3), "stick": (1, 3)}
"""The places of the cpu that the task is on and of the one that it was to have among the tracepoint's arguments."""
_PLACE = np.dtype([("place", "u4")])
_NODE = np.dtype([("node", "i8")])


class NodeDecisions(Tracer):
    """Decisions about a target's tasks; of a swap the one about the task that asked for it."""

    unit = "decisions"
    labels = (Label("op", spell=DECISIONS.__getitem__), Label("from_node"), Label("to_node"))

    def load(self, tracing: Tracing) -> None:
        """Load what hears each kind of decision."""
        self._nodes = tracing.hold(_make_nodes())
        for number, kind in enumerate(DECISIONS):
            tracing.load_event(f"sched_{kind}_numa", partial(self.write, number, tracing))

    def write(self, number: int, tracing: Tracing, program: TaskAssembly) -> None:
        """Write sched_move_numa(task, cpu, cpu to be), or of the others (task, cpu, task there, cpu there)."""
        here, there = _CPUS[DECISIONS[number]]
        event = tracing.reserve(program)
        program.move(R6, R1)
        program.read_argument(R8, R6, here)
        program.read_argument(R9, R6, there)
        program.read_argument(R7, R6, 0)
        tracing.tasks.filter.keep(program, R7, "done")
        program.set(event, "op", number)
        self._set_node(program, event, "from_node", R8)
        self._set_node(program, event, "to_node", R9)
        tracing.write(program, event, R7, R6)
        program.label("done")
        program.leave(0)

    def _set_node(self, program: TaskAssembly, event: Record, field: str, cpu: Register) -> None:
        """Emit what sets a field to the node of a cpu; absent where there is no cpu (a task that sticks has none)."""
        place = program.reserve(_PLACE)
        program.set(place, "place", cpu)
        program.set(event, field, ABSENT)
        program.look_up(self._nodes, place)
        with program.when(R0, "!=", 0):
            program.get(R1, Record(R0, _NODE), "node")
            program.set(event, field, R1)


def _make_nodes() -> Map:
    """Make the map of the node that each cpu is of."""
    nodes = find_cpu_nodes("/")
    cpus = range(max(read_cpus("/", "possible")) + 1)
    table = Map(MapType.ARRAY, "nodes", _PLACE, _NODE, len(cpus))
    for cpu in cpus:
        table.update(cpu, (nodes.get(cpu, ABSENT),))
    return table
