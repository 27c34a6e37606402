"""Packets that the kernel throws away, told where each is freed (kfree_skb): what it was, where, and why.

A packet that was used up is freed by another function, and no drop. Since Linux 5.17 the kernel says a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import attrs
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.hooks import TypedTracepoint
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R1, R2, R3, R6, R7, R8, R9
from omn_kernel.btf.fields import FieldMissing, iter_enumerators
from omn_kernel.btf.spelling import spell_tracepoint
from omn_kernel.btf.types import Btf
from omn_kernel.interfaces import Interface

RECORDED = frozenset({"location", "reason", "protocol"})
"""Those of `LAYOUTS` that a record tells, of the protocol the ethertype alone."""
LAYOUTS = {
    "location": [("location", "u8")],
    "reason": [("reason", "i4")],
    "iface": [("netns", "u4"), ("index", "i4")],
    "name": [("name", "S16")],
    "sock": [("sock", "u8")],
    "protocol": [("ethertype", ">u2"), ("protocol", "u2")],
}
"""The fields of a record, by what an answer shows. `protocol` is the number in the header of IP, 0 for none."""
NO_REASON = -1
_REASON, _SOCKET = 2, 3
"""Which arguments of kfree_skb are the reason, and the socket that the packet was for (Linux 6.11)."""
_WORD = 32
_IP_HEADERS = {0x0800: 9, 0x86DD: 6}
"""Where the number of what it carries stands in the header of each version of IP, by its ethertype."""
_NOT_SET = 0xFFFF
_NOT_DROPPED = ("SKB_NOT_DROPPED_YET", "SKB_CONSUMED")


def read_reasons(types: Btf) -> dict[str, int]:
    """Return the reasons for drops on this kernel by their names, none before Linux 5.17."""
    try:
        return dict(iter_enumerators(types, "skb_drop_reason"))
    except FieldMissing:
        return {}


@attrs.frozen
class DropProgram:
    """Writes the program. `shown` are those of `LAYOUTS` that a record has, `interface` the one that is asked about.

    `reasons` are the numbers of the kernel's reasons by their names.
    """

    reasons: Mapping[str, int]
    shown: Collection[str]
    interface: Interface | None

    def write(self, program: TaskAssembly, record: Record, hand_over: Callable[[], None]) -> None:
        """Write kfree_skb(packet, location[, reason[, socket]]), which leaves what it knows in a cleared record.

        `hand_over` emits what becomes of it: R6 holds the context then, R7 the packet where one is told.
        """
        program.clear(record)
        program.move(R6, R1)
        if isinstance(program, RecordedAssembly):
            self._tell_recorded(program, record)
        elif isinstance(program, KernelAssembly):
            self._tell(program, record)
        hand_over()
        program.label("done")
        program.leave(0)

    def _tell_recorded(self, program: RecordedAssembly, record: Record) -> None:
        """Set what the record tells."""
        if "reason" in program.fields:
            program.read_argument(R1, R6, _REASON)
            # What has no name below those that have one says that nothing was dropped.
            program.jump_if(R1, "<", min(self.reasons.values(), default=0), "done")
        else:
            program.move(R1, NO_REASON)
        if "reason" in self.shown:
            program.set(record, "reason", R1)
        self._set_location(program, record)
        if "protocol" in self.shown:
            program.read_record(R1, R6, program.fields["protocol"])
            program.move(R2, R1)
            program.compute(R2, ">>=", 8)
            program.compute(R1, "<<=", 8)
            program.compute(R1, "|=", R2)
            program.set(record, "ethertype", R1)

    def _tell(self, program: KernelAssembly, record: Record) -> None:
        """Set what the packet tells, and its socket."""
        number = TypedTracepoint("kfree_skb", program.types).get_attach_id()
        arguments = len(spell_tracepoint(program.types, number))
        program.read_argument(R7, R6, 0)
        self._set_reason(program, record, has_reason=arguments > _REASON)
        self._set_location(program, record)
        self._point_to_socket(program, has_socket=arguments > _SOCKET)
        if "sock" in self.shown:
            with program.when(R8, "!=", 0):
                program.read_field(R1, R8, "sock", "__sk_common.skc_cookie", is_copied=True)
                program.set(record, "sock", R1)
        if self.interface is not None or {"iface", "name"}.intersection(self.shown):
            self._set_interface(program, record)
        if "protocol" in self.shown:
            self._set_protocol(program, record)

    def _set_location(self, program: TaskAssembly, record: Record) -> None:
        if "location" in self.shown:
            program.read_argument(R1, R6, 1)
            program.set(record, "location", R1)

    def _set_reason(self, program: KernelAssembly, record: Record, *, has_reason: bool) -> None:
        if not has_reason:
            if "reason" in self.shown:
                program.set(record, "reason", NO_REASON)
            return
        program.read_argument(R1, R6, _REASON)
        program.compute(R1, "<<=", _WORD)
        program.compute(R1, ">>=", _WORD)
        for name in _NOT_DROPPED:
            if name in self.reasons:
                program.jump_if(R1, "==", self.reasons[name], "done")
        if "reason" in self.shown:
            program.set(record, "reason", R1)

    def _point_to_socket(self, program: KernelAssembly, *, has_socket: bool) -> None:
        """Set R8 to the socket of the packet in R7: of who sends it, else the one that it was for; 0 for none."""
        program.read_field(R8, R7, "sk_buff", "sk")
        if has_socket:
            with program.when(R8, "==", 0):
                program.read_argument(R8, R6, _SOCKET)

    def _set_interface(self, program: KernelAssembly, record: Record) -> None:
        """Set which interface the packet in R7 is on, of the socket in R8; nothing where it is on none.

        Where a packet waits for a socket, something else stands in the place of its interface: one is an interface
        where its namespace's loopback is of that namespace. Else it is the one that it came in by.
        """
        elsewhere, known, end = (program.make_label(name) for name in ("elsewhere", "interface", "end"))
        program.read_field(R9, R7, "sk_buff", "dev")
        program.read_field(R3, R9, "net_device", "nd_net.net", is_copied=True)
        program.jump_if(R3, "==", 0, elsewhere)
        namespace = program.reserve([("net", "u8")])
        program.set(namespace, "net", R3)
        program.read_field(R1, R3, "net", "loopback_dev.nd_net.net", is_copied=True)
        program.get(R2, namespace, "net")
        program.jump_if(R1, "!=", R2, elsewhere)
        if "name" in self.shown:
            program.copy_field(record, "name", R9, "net_device", "name")
        program.read_field(R1, R9, "net_device", "ifindex", is_copied=True)
        program.jump(known)
        program.label(elsewhere)
        program.jump_if(R8, "==", 0, end if self.interface is None else "done")
        program.read_field(R1, R8, "sock", "__sk_common.skc_net.net", is_copied=True)
        program.set(namespace, "net", R1)
        program.read_field(R1, R7, "sk_buff", "skb_iif")
        program.label(known)
        place = program.reserve([("index", "u8")])
        program.set(place, "index", R1)
        program.get(R1, namespace, "net")
        program.read_field(R1, R1, "net", "ns.inum", is_copied=True)
        program.get(R2, place, "index")
        if self.interface is not None:
            program.move(R3, self.interface.namespace.inode)
            program.jump_if(R1, "!=", R3, "done")
            program.jump_if(R2, "!=", self.interface.index, "done")
        if "iface" in self.shown:
            program.jump_if(R1, "==", 0, end)
            program.jump_if(R2, "==", 0, end)
            program.set(record, "netns", R1)
            program.set(record, "index", R2)
        program.label(end)

    def _set_protocol(self, program: KernelAssembly, record: Record) -> None:
        """Set what the packet in R7 is by its ethertype and, of IP, what that carries."""
        end = program.make_label("protocol")
        program.read_field(R9, R7, "sk_buff", "protocol")
        program.set(record, "ethertype", R9)
        program.read_field(R1, R7, "sk_buff", "network_header")
        program.jump_if(R1, "==", _NOT_SET, end)
        header = program.reserve([("offset", "u8"), ("carried", "u8")])
        program.clear(header)
        program.set(header, "offset", R1)
        program.read_field(R3, R7, "sk_buff", "head")
        program.get(R1, header, "offset")
        program.compute(R3, "+=", R1)
        for ethertype, offset in _IP_HEADERS.items():
            other = program.make_label("other")
            program.jump_if(R9, "!=", int.from_bytes(ethertype.to_bytes(2, "big"), "little"), other)
            program.compute(R3, "+=", offset)
            program.move(R2, 1)
            program.point_at(R1, header, "carried")
            program.call("probe_read_kernel")
            program.get(R1, header, "carried")
            program.set(record, "protocol", R1)
            program.jump(end)
            program.label(other)
        program.label(end)
