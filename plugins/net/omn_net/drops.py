"""net.drops: packets that the kernel threw away, each an event, or counted in the kernel by what divides them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.choosing import ChosenCollector
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.columns import Columns, make_named_column, make_number_column, make_text_column
from omn_kernel.bpf.maps import Entries
from omn_kernel.bpf.pieces import read_clock
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.record_arguments import reads_records
from omn_kernel.bpf.registers import R0, R1, R6, R7
from omn_kernel.bpf.rows import RowCollector
from omn_kernel.bpf.stacked import StackedRecords
from omn_kernel.interfaces import Interface
from omn_kernel.symbols.spaces import AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser
from omn_kernel.tracepoints import read_symbols

from omn_core.api import ABSENT as NO_NAME
from omn_core.api import Batch, BoundTarget, Column, ResolvedRequest, RunContext
from omn_net.packet_names import name_protocol, name_reasons
from omn_net.programs.drops import LAYOUTS, RECORDED, DropProgram, read_reasons


class Drops(ProgramCollector, ABC):
    """The program, whatever becomes of its events, and what these say."""

    def prepare(self, resolved: ResolvedRequest, context: RunContext) -> None:
        """Find what the answer shows of a packet, and open what needs no target."""
        told = RECORDED if reads_records(resolved) else LAYOUTS
        self.shown = tuple(name for name in LAYOUTS if name in told and resolved.shows(name))
        self.subject: Sequence[tuple[str, str]] = [part for name in self.shown for part in LAYOUTS[name]]
        super().prepare(resolved, context)

    def make_program(self, target: BoundTarget) -> DropProgram:
        """Make the program for a target, and find what its numbers stand for."""
        reasons = self._read_recorded_reasons() if self.reads_records else read_reasons(self.types)
        self._reasons = name_reasons(reasons)
        self._symboliser = Symboliser(AddressSpaces(), self.context.sysroot)
        return DropProgram(reasons, self.shown, target.place if isinstance(target.place, Interface) else None)

    def _read_recorded_reasons(self) -> dict[str, int]:
        return {name: number for number, name in read_symbols("skb/kfree_skb", "reason").items()}

    def make_subjects(self, records: npt.NDArray[Any]) -> tuple[Mapping[str, Column], Mapping[str, Column]]:
        """Make the keys and the attributes of packets."""
        names, keys, attributes = self.context.names, {}, {}
        if "iface" in self.shown:
            places = records["netns"].astype(np.uint64) << np.uint64(32) | records["index"].astype(np.uint64)
            keys["iface"] = make_named_column(places, _spell_interface, names)
        if "sock" in self.shown:
            keys["sock"] = Column(records["sock"].astype(np.uint64), records["sock"] != 0)
        if "protocol" in self.shown:
            kinds = records["ethertype"].astype(np.int64) << 8 | records["protocol"].astype(np.int64)
            keys["protocol"] = make_named_column(kinds, self._name_kind, names)
        if "name" in self.shown:
            attributes["name"] = make_text_column(records["name"], names)
        if "reason" in self.shown:
            attributes["reason"] = make_named_column(records["reason"], self._reasons, names)
        if "location" in self.shown:
            attributes["location"] = self._make_locations(records["location"])
        return keys, attributes

    def _name_kind(self, kind: int) -> str | None:
        return name_protocol(kind >> 8, None if self.reads_records else kind & 0xFF)

    def _make_locations(self, addresses: npt.NDArray[np.uint64]) -> Column:
        """Make the column of the functions that freed packets, each with how far in it the call is.

        It is absent where the kernel hides its addresses (kptr_restrict), which `facts` says.
        """
        different, codes = np.unique(addresses, return_inverse=True)
        frames = self._symboliser.resolve(0, different, np.zeros(len(different), np.int64))
        symbols = [self._symboliser.symbols[number] for number in frames.symbol.tolist()]
        interned = np.array(
            [
                NO_NAME if symbol.name is None else self.context.names.intern(f"{symbol.name}+{offset:#x}")
                for symbol, offset in zip(symbols, frames.offset.tolist(), strict=True)
            ],
            np.int64,
        )
        return Column(interned[codes.reshape(-1)], None, self.context.names)

    def facts(self) -> tuple[str, ...]:
        """Say what of the kernel's functions could not be named."""
        return (*super().facts(), *self._symboliser.notes)


class DropRecords(Drops, StackedRecords):
    """Each by itself, with the kernel's stack where that is asked for."""

    takes_kernel_stacks_only = True

    def open_maps(self) -> None:
        """Open the way that packets come."""
        self.layout = [("bytes", "u8"), *self.subject]
        super().open_maps()

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program."""
        written = self.make_program(target)
        self.load_event("kfree_skb", lambda program: self._write(program, written))

    def _write(self, program: TaskAssembly, written: DropProgram) -> None:
        record = program.reserve(self.record)

        def hand_over() -> None:
            if isinstance(program, KernelAssembly):
                program.read_field(R1, R7, "sk_buff", "len")
                program.set(record, "bytes", R1)
            self.take_stack(program, record, R6)
            read_clock(program, R0)
            program.set(record, "ns", R0)
            self.transport.write(program, record, R6)

        written.write(program, record, hand_over)

    def make_columns(self, records: npt.NDArray[Any]) -> Columns:
        """Make columns of packets."""
        keys, attributes = self.make_subjects(records)
        measured = {"packets": Column(np.ones(len(records), np.int64))}
        if not self.reads_records:
            measured["bytes"] = make_number_column(records["bytes"])
        return Columns(keys, {**measured, **attributes}, stack=self.make_stacks(records))


class DropRows(Drops, RowCollector):
    """A row for each value of what divides the answer, with how many packets came to it."""

    row = np.dtype([("packets", np.uint64)])

    def open_maps(self) -> None:
        """Open the maps of rows."""
        self.key = np.dtype(list(self.subject) or [("all", "u4")], align=True)
        super().open_maps()

    def write_programs(self, target: BoundTarget) -> None:
        """Load the program."""
        written = self.make_program(target)
        self.load_event("kfree_skb", lambda program: self._write(program, written))

    def _write(self, program: TaskAssembly, written: DropProgram) -> None:
        key = program.reserve(self.key)

        def hand_over() -> None:
            empty = program.reserve(self.row)
            program.clear(empty)
            self.rows.find_or_make(program, key, empty)
            with program.when(R0, "!=", 0):
                program.move(R1, 1)
                program.add_to(Record(R0, self.row), "packets", R1)

        written.write(program, key, hand_over)

    def sample(self, now_ns: int) -> Batch:
        """Take the rows. Where nothing divides the answer, that nothing was thrown away is a zero."""
        batch = super().sample(now_ns)
        if len(batch) or self.subject:
            return batch
        nothing = np.zeros(1, np.int64)
        return Batch(np.array([self.context.clock()]), None, {}, {"packets": Column(nothing)}, nothing)

    def make_columns(self, entries: Entries) -> Columns:
        """Make columns of rows, each standing for as many packets as it counted."""
        keys, attributes = self.make_subjects(entries.keys)
        packets = entries.values["packets"].astype(np.int64)
        return Columns(keys, {"packets": Column(np.ones(len(entries), np.int64)), **attributes}, packets)


class DroppedPackets(ChosenCollector):
    """Counted in the kernel where numbers of packets are all that is asked, else one by one."""

    def choose(self, resolved: ResolvedRequest) -> DropRecords | DropRows:
        """Choose rows of a count without stacks."""
        asked = {resolved.value, *resolved.filter_fields, *(emit.attribute for emit in resolved.emits)}
        has_stacks = bool(resolved.stack_keys) or any(emit.name == "stack" for emit in resolved.emits)
        adds_up = resolved.mode == "count" and not has_stacks and "bytes" not in asked
        self.reads_between = not adds_up
        return DropRows() if adds_up else DropRecords()


def _spell_interface(place: int) -> str | None:
    namespace, index = place >> 32, place & 0xFFFFFFFF
    return f"{namespace}:{index}" if namespace and index else None
