"""What records say of a socket: the fields that an answer shows, written by programs and made into columns."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.assembly import Record
from omn_kernel.bpf.columns import make_spelled_column
from omn_kernel.bpf.reading import KernelAssembly, TaskAssembly
from omn_kernel.bpf.record_arguments import reads_records
from omn_kernel.bpf.records import RecordedAssembly
from omn_kernel.bpf.registers import R0, R1, R2, R3, Register

from omn_core.api import Column, Names, ResolvedRequest

_ADDRESS_BYTES, _FOUR_BYTES = 16, 4
_PORT_AT, _FOUR_AT, _SIX_AT = 2, 4, 8
"""Where in struct sockaddr_in and sockaddr_in6 the port stands, and where each has its address."""
_LAYOUTS = {
    "sock": ("sock", "u8"),
    "local_address": ("local_address", f"S{_ADDRESS_BYTES}"),
    "remote_address": ("remote_address", f"S{_ADDRESS_BYTES}"),
    "local_port": ("local_port", ">u2"),
    "remote_port": ("remote_port", ">u2"),
}
_PATHS = {
    "local_address": ("skc_rcv_saddr", "skc_v6_rcv_saddr"),
    "remote_address": ("skc_daddr", "skc_v6_daddr"),
}
_TOLD = {
    "local_address": "saddr_v6",
    "remote_address": "daddr_v6",
    "local_port": "sport",
    "remote_port": "dport",
}
"""What the records of TCP's tracepoints call them: addresses of 16 bytes, those of IPv4 mapped; ports as numbers."""
_SOCKET, _REQUEST = ("sock", "__sk_common"), ("request_sock", "__req_common")
"""The structures that a connection has, and the part that these have in common (struct sock_common)."""
_MAPPED = bytes(10) + b"\xff\xff"
"""What stands before an IPv4 address where there is room for an IPv6 one (RFC 4291)."""


class SocketFields:
    """The fields of a TCP socket that the answer to a request shows: the key `sock`, addresses and ports.

    `sock` is the socket's cookie, by which sock_diag names it too. Before Linux 5.12 a program cannot have the kernel
    give a socket one, and it is absent where nobody asked for it yet. No record of a tracepoint tells it.
    """

    def __init__(self, resolved: ResolvedRequest) -> None:
        told = _TOLD if reads_records(resolved) else _LAYOUTS
        self.shown = tuple(name for name in _LAYOUTS if name in told and resolved.shows(name))
        self.layout = [_LAYOUTS[name] for name in self.shown]

    def write(self, program: TaskAssembly, record: Record, context: Register, sock: Register) -> None:
        """Emit what sets the fields in a record. R0 to R5 hold nothing of the program's after it. Raises FieldMissing.

        `sock` points to the socket's struct sock, and `context` is what R1 held when the program began, by which a
        record of a tracepoint tells them. Both are of R6 to R9.
        """
        if isinstance(program, KernelAssembly):
            self._write_socket(program, record, sock)
        elif isinstance(program, RecordedAssembly):
            self._write_told(program, record, context)

    def _write_told(self, program: RecordedAssembly, record: Record, context: Register) -> None:
        for name in self.shown:
            field = program.fields[_TOLD[name]]
            if name.endswith("_port"):
                program.read_record(R1, context, field)
                _set_port(program, record, name)
                continue
            program.move(R3, context)
            program.compute(R3, "+=", field.offset)
            program.move(R2, field.size)
            program.point_at(R1, record, name)
            program.call("probe_read_kernel")

    def _write_socket(self, program: KernelAssembly, record: Record, sock: Register) -> None:
        if "sock" in self.shown and program.has_typed_pointers:
            program.move(R1, sock)
            program.call("get_socket_cookie")
            program.set(record, "sock", R0)
        elif "sock" in self.shown:
            program.read_field(R1, sock, "sock", "__sk_common.skc_cookie")
            program.set(record, "sock", R1)
        if "local_port" in self.shown:
            # The port that the socket is bound to is let go of before it is closed; this one stays.
            program.read_field(R1, sock, "inet_sock", "inet_sport", is_copied=True)
            program.set(record, "local_port", R1)
        self._write_ends(program, record, sock, *_SOCKET)

    def write_request(self, program: KernelAssembly, record: Record, request: Register) -> None:
        """Emit the same of a connection that is not made yet, for which there is a struct request_sock alone."""
        if "sock" in self.shown:
            program.read_field(R1, request, "request_sock", "__req_common.skc_cookie")
            program.set(record, "sock", R1)
        if "local_port" in self.shown:
            # This port alone is a number, and not as it is sent.
            program.read_field(R1, request, "request_sock", "__req_common.skc_num")
            _set_port(program, record, "local_port")
        self._write_ends(program, record, request, *_REQUEST)

    def write_wanted(self, program: KernelAssembly, record: Record, address: Register) -> None:
        """Emit what sets the other end to the one that a struct sockaddr names, IPv4's or IPv6's, in R6 to R9."""
        if "remote_port" in self.shown:
            program.copy_memory(R1, address, _PORT_AT, 2)
            program.set(record, "remote_port", R1)
        if "remote_address" not in self.shown:
            return
        four, end = program.make_label("four"), program.make_label("wanted")
        program.copy_memory(R1, address, 0, 2)
        program.jump_if(R1, "!=", socket.AF_INET6, four)
        _copy_address(program, record, address, _SIX_AT, _ADDRESS_BYTES)
        program.jump(end)
        program.label(four)
        _write_mapped(program, record, "remote_address")
        _copy_address(program, record, address, _FOUR_AT, _FOUR_BYTES)
        program.label(end)

    def _write_ends(self, program: KernelAssembly, record: Record, sock: Register, kind: str, part: str) -> None:
        for name in _PATHS.keys() & set(self.shown):
            self._write_address(program, record, name, sock, kind, part)
        if "remote_port" in self.shown:
            program.read_field(R1, sock, kind, f"{part}.skc_dport")
            program.set(record, "remote_port", R1)

    def _write_address(
        self, program: KernelAssembly, record: Record, name: str, sock: Register, kind: str, part: str
    ) -> None:
        """Emit an address of 16 bytes, an IPv4 one as it is mapped into IPv6."""
        four, six = (f"{part}.{path}" for path in _PATHS[name])
        offset, _ = record.locate(name)
        other, end = program.make_label("other"), program.make_label("address")
        program.read_field(R1, sock, kind, f"{part}.skc_family")
        program.jump_if(R1, "!=", socket.AF_INET, other)
        _write_mapped(program, record, name)
        program.read_field(R1, sock, kind, four)
        program.store(record.base, offset + 12, R1, 4)
        program.jump(end)
        program.label(other)
        if program.has_field(kind, six):
            program.copy_field(record, name, sock, kind, six)
        program.label(end)

    def make_columns(
        self, records: npt.NDArray[Any], names: Names
    ) -> tuple[Mapping[str, Column], Mapping[str, Column]]:
        """Make the keys and the attributes of records."""
        attributes: dict[str, Column] = {}
        for name in self.shown:
            if name.endswith("_address"):
                attributes[name] = make_spelled_column(records[name], spell_address, names)
            elif name != "sock":
                ports = records[name].astype(np.int64)
                attributes[name] = Column(ports, ports != 0)
        keys = {}
        if "sock" in self.shown:
            cookies = records["sock"].astype(np.uint64)
            keys["sock"] = Column(cookies, cookies != 0)
        return keys, attributes


def _write_mapped(program: TaskAssembly, record: Record, name: str) -> None:
    """Emit what stands before an IPv4 address where there is room for an IPv6 one."""
    offset, _ = record.locate(name)
    program.store(record.base, offset, 0, 8)
    program.store(record.base, offset + 8, 0, 2)
    program.store(record.base, offset + 10, 0xFFFF, 2)


def _copy_address(program: TaskAssembly, record: Record, address: Register, offset: int, size: int) -> None:
    """Emit what copies the bytes of an address, so far into a struct sockaddr, to the end of the other end's field."""
    program.move(R3, address)
    program.compute(R3, "+=", offset)
    program.move(R2, size)
    program.point_at(R1, record, "remote_address")
    program.compute(R1, "+=", _ADDRESS_BYTES - size)
    program.call("probe_read_kernel")


def _set_port(program: TaskAssembly, record: Record, field: str) -> None:
    """Emit what sets a field to the port whose number R1 holds, as it is sent. R0 and R1 hold nothing after it."""
    program.move(R0, R1)
    program.compute(R0, ">>=", 8)
    program.compute(R1, "<<=", 8)
    program.compute(R1, "|=", R0)
    program.set(record, field, R1)


def spell_address(address: bytes) -> str:
    """Spell an address of 16 bytes as inet_ntop(3) does, one that is mapped from IPv4 as what it is."""
    if address.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, address[len(_MAPPED) :])
    return socket.inet_ntop(socket.AF_INET6, address)
