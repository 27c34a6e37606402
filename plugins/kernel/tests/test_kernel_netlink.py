"""Netlink dumps: many messages, refusals, dumps that were torn, answers that do not fit, attributes."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.links import COUNTERS, parse_links, read_links
from omn_kernel.namespaces import open_netlink_socket, read_own_network
from omn_kernel.netlink import (
    ROUTE,
    Dump,
    DumpInterrupted,
    NetlinkSocket,
    find_attributes,
    iter_attributes,
    parse_number,
    parse_text,
)

ERROR, DONE, LINK, TORN = 2, 3, 16, 0x10


def make_message(kind: int, sequence: int, body: bytes, flags: int = 2) -> bytes:
    length = 16 + len(body)
    return struct.pack("=IHHII", length, kind, flags, sequence, 0) + body + b"\0" * (-length % 4)


def make_attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def make_link(index: int, name: str, *attributes: bytes, type_: int = 1) -> bytes:
    body = struct.pack("=BxHiII", 0, type_, index, 0, 0) + make_attribute(3, name.encode() + b"\0")
    return body + b"".join(attributes)


class Kernel:
    """The other end of a socket, whose answers a test lays out beforehand."""

    def __init__(self) -> None:
        ours, self._end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.asker = NetlinkSocket(ours)

    def answer(self, *messages: bytes) -> None:
        """Lay one datagram out."""
        self._end.send(b"".join(messages))

    def take_question(self) -> tuple[int, ...]:
        """Return the header of the oldest question."""
        return struct.unpack_from("=IHHII", self._end.recv(4096))

    def close(self) -> None:
        """Close both ends."""
        self.asker.close()
        self._end.close()


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A kernel that answers what it was told to."""
    made = Kernel()
    yield made
    made.close()


def test_a_dump_is_every_message_of_every_datagram(kernel: Kernel) -> None:
    """Bodies are found where they lie, across datagrams; what ends the dump is none of them."""
    kernel.answer(make_message(LINK, 1, b"first"), make_message(LINK, 1, b"second!!"))
    kernel.answer(make_message(LINK, 1, b"third"), make_message(DONE, 1, struct.pack("=i", 0)))
    dump = kernel.asker.dump(18, b"question")
    assert [dump.content[start:end] for start, end in dump.bodies] == [b"first", b"second!!", b"third"]
    assert kernel.take_question() == (24, 18, 0x301, 1, 0)
    assert kernel.asker.repeated == 0


@pytest.mark.parametrize("kind", [ERROR, DONE])
def test_the_kernels_refusal_is_raised_with_its_number(kernel: Kernel, kind: int) -> None:
    """At once, or at the end of what it could give."""
    kernel.answer(make_message(LINK, 1, b"some"), make_message(kind, 1, struct.pack("=i", -errno.EPERM)))
    with pytest.raises(PermissionError):
        kernel.asker.dump(18, b"")


def test_a_dump_without_a_number_at_its_end_is_whole(kernel: Kernel) -> None:
    """As kernels before 4.11 end it."""
    kernel.answer(make_message(LINK, 1, b"all"), make_message(DONE, 1, b""))
    assert len(kernel.asker.dump(18, b"").bodies) == 1


def test_a_torn_dump_is_asked_for_again_and_counted(kernel: Kernel) -> None:
    """Objects came or went while it was made: its messages are in no answer."""
    kernel.answer(make_message(LINK, 1, b"torn", TORN | 2), make_message(DONE, 1, b"", TORN))
    kernel.answer(make_message(LINK, 2, b"whole"), make_message(DONE, 2, b""))
    dump = kernel.asker.dump(18, b"")
    assert [dump.content[start:end] for start, end in dump.bodies] == [b"whole"]
    assert kernel.asker.repeated == 1


def test_a_dump_that_stays_torn_is_given_up(kernel: Kernel) -> None:
    """After some tries: an error, and never half an answer."""
    for number in range(1, 9):
        kernel.answer(make_message(DONE, number, b"", TORN))
    with pytest.raises(DumpInterrupted, match="changed under 8 readings"):
        kernel.asker.dump(18, b"")
    assert kernel.asker.repeated == 8


def test_an_answer_that_does_not_fit_is_asked_for_again_with_room(kernel: Kernel) -> None:
    """What was cut off is not used."""
    kernel.answer(make_message(LINK, 1, bytes(100_000)))
    kernel.answer(make_message(DONE, 1, b""))
    kernel.answer(make_message(LINK, 2, bytes(100_000)))
    kernel.answer(make_message(DONE, 2, b""))
    ((start, end),) = kernel.asker.dump(18, b"").bodies
    assert end - start == 100_000
    assert kernel.asker.repeated == 1


def test_what_is_left_of_another_dump_is_passed_over(kernel: Kernel) -> None:
    """A message belongs to the question whose number it carries."""
    kernel.answer(make_message(LINK, 99, b"stale"), make_message(DONE, 99, b""))
    kernel.answer(make_message(LINK, 1, b"ours"), make_message(DONE, 1, b""))
    dump = kernel.asker.dump(18, b"")
    assert [dump.content[start:end] for start, end in dump.bodies] == [b"ours"]


def test_a_message_that_says_it_has_no_length_ends_its_datagram(kernel: Kernel) -> None:
    """No reading goes round for ever."""
    kernel.answer(make_message(LINK, 1, b"good"), struct.pack("=IHHII", 0, LINK, 2, 1, 0))
    kernel.answer(make_message(DONE, 1, b""))
    assert len(kernel.asker.dump(18, b"").bodies) == 1


@given(st.lists(st.tuples(st.integers(1, 0x3FFF), st.binary(max_size=40))))
def test_attributes_are_found_where_they_were_laid(attributes: list[tuple[int, bytes]]) -> None:
    """In their order, padding passed over, flags of nesting taken off."""
    content = b"".join(make_attribute(kind | 0x8000, payload) for kind, payload in attributes)
    found = [(kind, content[start:end]) for kind, start, end in iter_attributes(content, 0, len(content))]
    assert found == attributes


@given(st.binary(max_size=80))
def test_any_bytes_end_as_attributes(content: bytes) -> None:
    """What is no attribute ends the walk, and nothing is read past the end."""
    assert all(start <= end <= len(content) for _, start, end in iter_attributes(content, 0, len(content)))


def test_texts_and_numbers_of_attributes() -> None:
    """A text ends with a zero, a number has the machine's order and any width."""
    content = make_attribute(1, b"eth0\0") + make_attribute(2, struct.pack("=I", 70000))
    found = find_attributes(content, 0, len(content))
    assert parse_text(content, found[1]) == "eth0"
    assert parse_number(content, found[2]) == 70000


def dump_links(kernel: Kernel, *bodies: bytes) -> Dump:
    kernel.answer(*(make_message(LINK, 1, body) for body in bodies))
    kernel.answer(make_message(DONE, 1, b""))
    return kernel.asker.dump(18, b"")


@pytest.mark.parametrize(("length", "kept"), [(25, 25), (24, 24), (23, 23), (30, 25)])
def test_an_interface_has_the_counters_that_its_kernel_keeps(kernel: Kernel, length: int, kept: int) -> None:
    """23 of them before Linux 4.6, 24 before 5.19; what a later one adds is passed over."""
    stats = make_attribute(23, struct.pack(f"={length}Q", *range(100, 100 + length)))
    links = parse_links(dump_links(kernel, make_link(7, "eth0", stats)))
    assert list(links[7].counters) == list(COUNTERS[:kept])
    assert links[7].counters["rx_packets"] == 100
    assert list(links[7].counters.values())[-1] == 99 + kept


def test_what_an_interface_stands_on_is_told(kernel: Kernel) -> None:
    """A vlan of one below, a pair's end whose other end is elsewhere under the same index, a port, hardware."""
    number = struct.Struct("=I").pack
    info = make_attribute(18 | 0x8000, make_attribute(1, b"veth\0"))
    links = parse_links(
        dump_links(
            kernel,
            make_link(1, "lo", type_=772),
            make_link(2, "eth0", make_attribute(5, number(2)), make_attribute(56, b"virtio0\0")),
            make_link(3, "eth0.5", make_attribute(5, number(2)), make_attribute(18, make_attribute(1, b"vlan\0"))),
            make_link(4, "veth0", make_attribute(5, number(4)), make_attribute(37, number(0)), info),
            make_link(5, "port", make_attribute(10, number(9))),
        )
    )
    lo, eth0, vlan, veth, port = links.values()
    assert (lo.is_loopback, lo.lower, lo.kind) == (True, None, None)
    assert (eth0.lower, eth0.has_device, eth0.kind) == (None, True, None)
    assert (vlan.lower, vlan.is_lower_elsewhere, vlan.kind) == (2, False, "vlan")
    assert (veth.lower, veth.is_lower_elsewhere, veth.kind) == (4, True, "veth")
    assert (port.master, port.has_moved) == (9, False)


def test_this_machines_interfaces_are_those_that_the_library_names() -> None:
    """The names and indexes of a dump are those of if_nameindex(3)."""
    try:
        connection = open_netlink_socket(read_own_network("/"), ROUTE)
    except OSError as error:
        pytest.skip(f"no netlink socket can be opened here: {error.strerror}")
    asker = NetlinkSocket(connection)
    links = read_links(asker)
    asker.close()
    assert {(link.index, link.name) for link in links.values()} == set(socket.if_nameindex())
    assert all("rx_bytes" in link.counters for link in links.values())
