"""sched.runqlen: the length of each cpu's run queue, sampled by a program on the cpu's clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.columns import Columns, make_number_column
from omn_kernel.bpf.hooks import Overflow, RawTracepoint
from omn_kernel.bpf.loading import LoadedProgram, load
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.perf.attributes import EventAttributes, Place, Sampling
from omn_kernel.perf.events import find_event
from omn_kernel.sysfs import read_cpus

from omn_core.api import Batch, BoundTarget, MachineRefused
from omn_sched.programs.runqlen import FIELDS, write_length

HZ = 97
"""How often a second at least: a prime, out of step with what a program does at round rates."""
_CLOCK = "cpu-clock"


class QueueLengths(StreamCollector):
    """An event for each sample of each cpu's queue; of a snapshot one of each cpu, taken when it is asked for."""

    record = np.dtype(FIELDS)

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program on the clock of each cpu, or for a snapshot to be run on each."""
        self._are_all = not target.cpus
        self._cpus = target.cpus or tuple(read_cpus("/", "online"))
        self._single: LoadedProgram | None = None
        if self.resolved.interval_ns is None:
            self._single = self.hold(load(self._write().assemble(), RawTracepoint("sched_switch")))
            return
        event = find_event("sw", _CLOCK)
        if event is None:
            raise MachineRefused(f"this build knows no perf event {_CLOCK!r}")
        sampling = Sampling(hz=max(HZ, -(-1_000_000_000 // self.resolved.interval_ns)))
        for cpu in self._cpus:
            attributes = EventAttributes(event.kind, event.config, sampling=sampling)
            self.programs.load(self._write(), Overflow(attributes, Place(cpu=cpu)))

    def _write(self) -> KernelAssembly:
        program = KernelAssembly("sample_queue", self.types, has_typed_pointers=False)
        write_length(program, self.transport)
        return program

    def sample(self, now_ns: int) -> Batch:
        """Copy what came; of a snapshot, take it."""
        if self._single is not None:
            for cpu in self._cpus:
                self._single.run_on(cpu)
        return super().sample(now_ns)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of the samples."""
        return Columns({"cpu": make_number_column(records["cpu"])}, {"length": make_number_column(records["length"])})

    def facts(self) -> tuple[str, ...]:
        """Say which cpus came since, and were not sampled."""
        came = sorted(set(read_cpus("/", "online")) - set(self._cpus)) if self._are_all else []
        return (f"cpus {', '.join(map(str, came))} came online and were not sampled",) if came else ()
