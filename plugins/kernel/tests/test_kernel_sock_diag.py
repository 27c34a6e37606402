"""Sockets in columns, of messages laid out by hand as several kernels do, and of this machine."""

from __future__ import annotations

import os
import socket
import struct

import pytest
from omn_kernel.namespaces import open_netlink_socket, read_own_network
from omn_kernel.netlink import SOCK_DIAG, Dump, NetlinkSocket
from omn_kernel.qdiscs import parse_qdiscs
from omn_kernel.sock_diag import (
    INFO,
    MEMORY,
    TCP_STATES,
    SocketTable,
    compute_drops,
    compute_round_trips,
    make_state_mask,
    read_sockets,
)

UNMEASURED = 0xFFFFFFFF


def make_socket(cookie: int, *attributes: bytes, family: int = socket.AF_INET, state: int = 1, inode: int = 0) -> bytes:
    """Make struct inet_diag_msg with its attributes: from 10.0.0.1 or fd00::1, port 80, to port 4000."""
    address = socket.inet_pton(family, "10.0.0.1" if family == socket.AF_INET else "fd00::1")
    identity = struct.pack(">HH16s16sI", 80, 4000, address, address[::-1], 0) + struct.pack("=Q", cookie)
    head = struct.pack("=BBBB", family, state, 0, 0)
    return head + identity + struct.pack("=IIIII", 0, 11, 22, 1000, inode) + b"".join(attributes)


def make_attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def make_info(rtt: int, variation: int, retransmits: int, least: int, length: int = 232) -> bytes:
    """Make struct tcp_info of so many bytes, as this and older kernels do."""
    content = bytearray(length)
    for place, number in ((68, rtt), (72, variation), (100, retransmits), (148, least)):
        if place + 4 <= length:
            struct.pack_into("=I", content, place, number)
    return make_attribute(INFO, bytes(content))


def make_table(*bodies: bytes) -> SocketTable:
    content, places = b"", []
    for body in bodies:
        content += bytes(16)
        places.append((len(content), len(content) + len(body)))
        content += body
    return SocketTable(Dump(content, places))


def test_what_a_socket_is_stands_in_columns() -> None:
    """States, cookies past 32 bits, ports, addresses of both families, queues and inodes, each in its place."""
    six = make_socket(1 << 40, family=socket.AF_INET6, state=10, inode=77)
    table = make_table(make_socket(5, inode=3), six)
    assert len(table) == 2
    assert table.states().tolist() == [1, 10]
    assert table.cookies().tolist() == [5, 1 << 40]
    assert (table.local_ports().tolist(), table.remote_ports().tolist()) == ([80, 80], [4000, 4000])
    assert table.list_addresses() == ["10.0.0.1", "fd00::1"]
    assert table.list_addresses(is_remote=True)[0] == "1.0.0.10"
    assert [column.tolist() for column in table.queued()] == [[11, 11], [22, 22]]
    assert table.inodes().tolist() == [3, 77]
    assert table.select(table.inodes() == 77).cookies().tolist() == [1 << 40]


def test_round_trips_are_read_of_every_kernels_struct() -> None:
    """Unmeasured ones are told; one without a least, or with an older kernel's shorter struct, lacks that alone."""
    table = make_table(
        make_socket(1, make_attribute(8, b"\0"), make_info(250, 30, 2, 200)),
        make_socket(2, make_attribute(8, b"\0"), make_info(0, 0, 0, UNMEASURED)),
        make_socket(3, make_info(9, 1, 0, 0, length=104)),
        make_socket(4),
    )
    trips = compute_round_trips(table)
    assert trips.is_measured.tolist() == [True, False, True, False]
    assert trips.has_least.tolist() == [True, False, False, False]
    assert trips.rtt_ns[[0, 2]].tolist() == [250_000, 9000]
    assert (trips.rttvar_ns[0], trips.min_rtt_ns[0], trips.retransmits[0]) == (30_000, 200_000, 2)


def test_an_extension_is_found_wherever_it_stands() -> None:
    """Messages of one kind are laid out alike, and a different one is looked through."""
    table = make_table(
        make_socket(1, make_info(5, 1, 0, 1)),
        make_socket(2, make_attribute(8, b"\0"), make_attribute(15, bytes(20)), make_info(6, 1, 0, 1)),
        make_socket(3, make_info(7, 1, 0, 1)),
        make_socket(4, make_attribute(8, b"\0")),
    )
    starts, lengths = table.find_extensions(INFO)
    assert (starts >= 0).tolist() == [True, True, True, False]
    assert lengths.tolist() == [232, 232, 232, 0]
    assert compute_round_trips(table).rtt_ns[:3].tolist() == [5000, 6000, 7000]


def test_drops_are_unknown_where_the_kernel_keeps_none() -> None:
    """Kernels before 4.9 end the memory of a socket before them."""
    full = make_attribute(MEMORY, struct.pack("=9I", *range(9)))
    short = make_attribute(MEMORY, struct.pack("=8I", *range(8)))
    assert compute_drops(make_table(make_socket(1, full), make_socket(2, short), make_socket(3))).tolist() == [
        8,
        -1,
        -1,
    ]


def test_a_table_of_no_sockets_has_empty_columns() -> None:
    """As of a namespace in which nothing is open."""
    table = SocketTable(Dump(bytes(20), []))
    assert len(table) == 0
    assert table.states().tolist() == table.cookies().tolist() == table.list_addresses() == []
    assert compute_round_trips(table).rtt_ns.tolist() == compute_drops(table).tolist() == []


def test_a_mask_names_states_by_the_kernels_numbers() -> None:
    """SYN_RECV is two of them."""
    assert make_state_mask(("ESTABLISHED",)) == 1 << 1
    assert make_state_mask(("LISTEN", "SYN_RECV")) == 1 << 10 | 1 << 3 | 1 << 12
    assert TCP_STATES[6 - 1] == "TIME_WAIT"


def test_this_machine_lists_a_listener_by_its_port() -> None:
    """The one that the test opened, in its state and with its inode."""
    try:
        asker = NetlinkSocket(open_netlink_socket(read_own_network("/"), SOCK_DIAG))
    except OSError as error:
        pytest.skip(f"no netlink socket can be opened here: {error.strerror}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        table = read_sockets(asker, socket.AF_INET, socket.IPPROTO_TCP, states=make_state_mask(("LISTEN",)))
        place = table.local_ports().tolist().index(listener.getsockname()[1])

        assert table.inodes()[place] == os.fstat(listener.fileno()).st_ino
        assert table.states()[place] == TCP_STATES.index("LISTEN") + 1
    asker.close()


def make_qdisc(handle: int, parent: int, *stats: bytes, kind: bytes = b"tbf") -> bytes:
    head = struct.pack("=BxxxiIII", 0, 3, handle, parent, 0)
    return head + make_attribute(1, kind + b"\0") + make_attribute(7, b"".join(stats))


def test_a_discipline_is_told_by_its_kind_and_its_handle() -> None:
    """Packets of 64 bits where the kernel has them; one without a handle by its class, one without statistics not."""
    basic = make_attribute(1, struct.pack("=QI", 1 << 40, 7) + bytes(4))
    queue = make_attribute(3, struct.pack("=IIIII", 2, 300, 5, 1, 9))
    wide = make_attribute(8, struct.pack("=Q", 1 << 33))
    bodies = [
        make_qdisc(0x80010000, 0xFFFFFFFF, basic, queue),
        make_qdisc(0, 0x80010001, basic, queue, wide, kind=b"pfifo"),
        make_qdisc(0x00010000, 0xFFFFFFF1, basic, kind=b"ingress"),
    ]
    content, places = b"", []
    for body in bodies:
        places.append((len(content), len(content) + len(body)))
        content += body
    root, inner = parse_qdiscs(Dump(content, places))
    assert (root.label, root.is_root, inner.label, inner.is_root) == ("tbf 8001:", True, "pfifo 8001:1", False)
    assert root.counters == {"bytes": 1 << 40, "packets": 7, "drops": 5, "requeues": 1, "overlimits": 9}
    assert (inner.counters["packets"], root.queued, root.backlog_bytes) == (1 << 33, 2, 300)
