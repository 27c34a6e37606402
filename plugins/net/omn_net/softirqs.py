"""net.softirq: how often cpus did the deferred work of the network, and how long it took them, by programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.choosing import ChosenCollector
from omn_kernel.bpf.collecting import Counts, ProgramCollector
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column
from omn_kernel.bpf.map_types import MapType
from omn_kernel.bpf.maps import Map
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import TaskAssembly
from omn_kernel.bpf.registers import R0, R1, R6, R7, R9
from omn_kernel.bpf.streaming import StreamCollector
from omn_kernel.polled import read_file
from omn_kernel.procfs.interrupts import compute_total, parse_interrupts
from omn_kernel.sysfs import read_cpus

from omn_core.api import Batch, BoundTarget, Column, Losses, ResolvedRequest
from omn_net.programs.softirqs import KINDS, LINES, NetworkSoftirqs

_PLACE = np.dtype([("place", "u4")])
_SUMS = np.dtype([("softirqs", "u8"), ("time_ns", "u8")])


class Softirqs(ProgramCollector, ABC):
    """The programs, whatever becomes of what they see."""

    _unknown = 0

    @abstractmethod
    def write_end(self, program: TaskAssembly) -> None:
        """Emit what becomes of one that ended (`NetworkSoftirqs.write_exit`)."""

    def write_programs(self, target: BoundTarget) -> None:
        """Load the programs, on the end before on the beginning."""
        self._cpus = target.cpus
        self._softirqs = self.hold(NetworkSoftirqs(target.cpus))
        self.load_event(
            "softirq_exit", lambda program: self._softirqs.write_exit(program, lambda: self.write_end(program))
        )
        self.load_event("softirq_entry", self._softirqs.write_entry)

    def detach(self) -> None:
        """Keep how many were not seen to begin."""
        super().detach()
        self._unknown = self._softirqs.unknown.read_count()

    def read_made(self) -> Counts:
        """Read how many of the target's cpus /proc/softirqs counts."""
        return {0: compute_total(parse_interrupts(read_file("/", "/proc/softirqs")), LINES, self._cpus)}

    def read_seen(self) -> Counts:
        """Read how many ended."""
        return {0: self._softirqs.read_ended()}

    def fields(self) -> Mapping[str, int]:
        """Return how many had begun before."""
        return {**super().fields(), "begun_before": self._unknown}


class SoftirqRecords(Softirqs, StreamCollector):
    """Each by itself, when it ends."""

    record = np.dtype([("ns", "u8"), ("time_ns", "u8"), ("cpu", "u4"), ("kind", "u4")])

    def write_end(self, program: TaskAssembly) -> None:
        """Emit what hands it over."""
        record = program.reserve(self.record)
        program.set(record, "time_ns", R9)
        program.set(record, "kind", R7)
        program.call("get_smp_processor_id")
        program.set(record, "cpu", R0)
        read_clock(program, R0)
        program.set(record, "ns", R0)
        self.transport.write(program, record, R6)

    def make_columns(self, records: npt.NDArray[np.void]) -> Columns:
        """Make columns of what each took."""
        is_received = records["kind"].astype(np.int64)
        keys = {
            "cpu": make_number_column(records["cpu"]),
            "dir": make_named_column(records["kind"], KINDS.__getitem__, self.context.names),
        }
        return Columns(
            keys,
            {
                "softirqs": Column(np.ones(len(records), np.int64)),
                "rx_softirqs": Column(is_received),
                "tx_softirqs": Column(1 - is_received),
                "time_ns": make_number_column(records["time_ns"]),
            },
        )


class SoftirqSums(Softirqs):
    """Added up on each cpu by itself, and read at each tick: a row for each cpu, each direction, or all."""

    def open_maps(self) -> None:
        """Open the map that each cpu adds to."""
        self._sums = self.hold(Map(MapType.PERCPU_ARRAY, "softirqs", _PLACE, _SUMS, len(KINDS)))
        self._read = np.zeros((len(KINDS), len(read_cpus("/", "possible"))), _SUMS)

    def write_end(self, program: TaskAssembly) -> None:
        """Emit what adds it up."""
        place = program.reserve(_PLACE)
        program.set(place, "place", R7)
        program.look_up(self._sums, place)
        with program.when(R0, "!=", 0):
            sums = Record(R0, _SUMS)
            program.add_to(sums, "time_ns", R9)
            program.move(R1, 1)
            program.add_to(sums, "softirqs", R1)

    def sample(self, now_ns: int) -> Batch:
        """Read what came since the last time."""
        at_ns, read = self.context.clock(), self._sums.read().values
        grown = {name: (read[name] - self._read[name]).astype(np.int64) for name in _SUMS.names or ()}
        self._read = read
        places = self._list_cpus()
        by_cpu = {name: values[:, places] for name, values in grown.items()}
        keys: dict[str, Column] = {}
        if not self.resolved.is_divided_by("cpu"):
            by_cpu = {name: values.sum(axis=1, keepdims=True) for name, values in by_cpu.items()}
            places = [0]
        else:
            keys["cpu"] = Column(np.array(places * (len(KINDS) if self._is_directed() else 1), np.int64))
        return self._make_batch(at_ns, keys, by_cpu)

    def _make_batch(self, at_ns: int, keys: dict[str, Column], by_cpu: Mapping[str, npt.NDArray[np.int64]]) -> Batch:
        softirqs, times = by_cpu["softirqs"], by_cpu["time_ns"]
        if self._is_directed():
            names = [self.context.names.intern(kind) for kind in KINDS for _ in range(softirqs.shape[1])]
            keys = {**keys, "dir": Column(np.array(names, np.int64), None, self.context.names)}
            values = {"softirqs": Column(softirqs.reshape(-1)), "time_ns": Column(times.reshape(-1))}
        else:
            parts = {f"{kind}_softirqs": Column(softirqs[place]) for place, kind in enumerate(KINDS)}
            values = {"softirqs": Column(softirqs.sum(axis=0)), "time_ns": Column(times.sum(axis=0)), **parts}
        return Batch(np.full(len(values["softirqs"]), at_ns, np.int64), None, keys, values)

    def _list_cpus(self) -> list[int]:
        """List the places of the cpus that are asked about, those online where none is named."""
        possible = list(read_cpus("/", "possible"))
        return [possible.index(cpu) for cpu in self._cpus or read_cpus("/", "online")]

    def _is_directed(self) -> bool:
        return self.resolved.is_divided_by("dir")

    def losses(self) -> Losses:
        """Return what passed no tracepoint, and the runs that the kernel passed over."""
        return self.add_missed(Losses())


class SoftirqWork(ChosenCollector):
    """Added up in the kernel, or one by one where each is asked for."""

    def choose(self, resolved: ResolvedRequest) -> SoftirqRecords | SoftirqSums:
        """Choose records of a trace."""
        return SoftirqRecords() if resolved.mode == "trace" else SoftirqSums()
