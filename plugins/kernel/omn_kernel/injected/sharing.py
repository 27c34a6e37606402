"""One library's memory for all requests of a run that it serves: what was written is read once, and each is handed it.

A program loads a library once and writes to one memory. What it spent in a program is in one request's account, however
many there are.
"""

from __future__ import annotations

from omn_core.api import RunContext
from omn_kernel.injected.memory import Array, InjectedMemory, Part, Stacks


class SharedMemory:
    """A library's memory and who reads it; it is let go with the last of these.

    Raises MachineRefused where there is no room for it.
    """

    def __init__(self) -> None:
        self.memory = InjectedMemory(0)
        self.readers: list[MemoryReader] = []
        self.charged_calls = self.charged_long = 0

    def drain(self) -> None:
        """Hand what was written since the last time to each that reads."""
        part = self.memory.drain()
        if part is not None:
            for reader in self.readers:
                reader.waiting.append(part)


def open_memory(context: RunContext, library: str, depth: int) -> MemoryReader:
    """Open a run's memory for a library, with so many frames of a stack in it as any request asks for.

    Raises MachineRefused where there is no room for it.
    """
    shared = context.shared.get(library)
    if not isinstance(shared, SharedMemory) or not shared.readers:
        shared = context.shared[library] = SharedMemory()
    shared.memory.deepen(depth)
    return MemoryReader(shared)


class MemoryReader:
    """One request's part in a library's memory, as `InjectedMemory` is read."""

    def __init__(self, shared: SharedMemory) -> None:
        self._shared = shared
        self._memory = shared.memory
        self._is_on = False
        self.waiting: list[Part] = []
        shared.readers.append(self)

    @property
    def path(self) -> str:
        """Where programs open it."""
        return self._memory.path

    def turn(self, *, is_on: bool) -> None:
        """Have the library record from now on, or no longer where no other request has it do so."""
        self._is_on = is_on
        self._memory.turn(is_on=any(reader._is_on for reader in self._shared.readers))

    def drain(self) -> list[Part]:
        """Take what was written since the last time."""
        self._shared.drain()
        taken, self.waiting = self.waiting, []
        return taken

    @property
    def lost(self) -> int:
        """How many records found no room."""
        return self._memory.lost

    @property
    def lost_stacks(self) -> int:
        """How many stacks found no room."""
        return self._memory.lost_stacks

    def read_processes(self) -> Array:
        """Read the processes that the library came into (`InjectedMemory.read_processes`)."""
        return self._memory.read_processes()

    def read_stacks(self) -> Stacks:
        """Read the stacks that were kept."""
        return self._memory.read_stacks()

    def compute_cost(self, calls: int) -> tuple[int, int]:
        """Compute what so many calls cost the programs, of which no request that ended had those in its account.

        While several read, the first has it.
        """
        if self._shared.readers[0] is not self:
            return 0, 0
        spent_ns, left_out = self._memory.compute_cost(max(calls - self._shared.charged_calls, 0))
        return spent_ns, left_out - self._shared.charged_long

    def settle_cost(self, calls: int) -> tuple[int, int]:
        """Compute the cost of what no request had in its account yet, in this one's from now on."""
        shared = self._shared
        spent_ns, left_out = self._memory.compute_cost(max(calls - shared.charged_calls, 0))
        left_out, shared.charged_long = left_out - shared.charged_long, left_out
        shared.charged_calls = max(calls, shared.charged_calls)
        return spent_ns, left_out

    def close(self) -> None:
        """Read no longer. Who reads last lets the memory go."""
        self.turn(is_on=False)
        self._shared.readers.remove(self)
        if not self._shared.readers:
            self._memory.close()
