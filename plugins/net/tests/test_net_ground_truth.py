"""The interface sources against frames that were counted by who sent them, between two namespaces of the test."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from networks import Network, Pair, make_network, pair
from omn_kernel.interfaces import Interface

from omn_core.api import BoundTarget, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, resolve_onto

__all__ = ["make_network", "pair"]

Drive = Callable[..., Driver]
FRAME = 14 + 20 + 8
"""Bytes of a frame before a datagram's: Ethernet, IPv4, UDP."""


def bind(interface: Interface) -> BoundTarget:
    return BoundTarget(Target("iface", interface.name), "interface", place=interface)


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source on an interface, or on omn's own namespace where none is named."""

    def make(source: str, interface: Interface | None, *keys: str, backend: str = "nl:route:link") -> Driver:
        target = bind_machine() if interface is None else bind(interface)
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll", keys=keys)
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target)

    return make


def pick(rows: Sequence[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


@pytest.mark.spec("NET-1", "EVT-2", "JON-7", "RUN-15")
def test_counted_datagrams_are_exact_to_the_headers_across_a_rename(pair: Pair, drive: Drive) -> None:
    """Sent here and received there, by two interfaces of one index in two namespaces, one renamed in between."""
    here, there = pair.here.find("here0"), pair.there.find("there0")
    assert here.index == there.index == Pair.index
    with (
        drive("net.bytes", here) as sent,
        drive("net.bytes", there, "dir") as received,
        drive("net.packets", here, "iface", "dir") as packets,
    ):
        pair.send(700, 100)
        first = sent.sample()
        pair.here.ip("link", "set", "here0", "name", "renamed0")
        pair.send(300, 1000)
        second = sent.sample()
        ways = received.sample()
        frames = packets.sample()
        assert sent.collector.losses().is_empty
        facts = sent.collector.facts()
    key = f"{pair.here.inode}:{Pair.index}"
    assert pick(first, "iface", "name", "tx_bytes", "bytes") == [(key, "here0", *[700 * (FRAME + 100)] * 2)]
    assert pick(second, "iface", "name", "tx_bytes", "rx_bytes") == [(key, "renamed0", 300 * (FRAME + 1000), 0)]
    whole = 700 * (FRAME + 100) + 300 * (FRAME + 1000)
    there_key = f"{pair.there.inode}:{Pair.index}"
    assert pick(ways, "iface", "dir", "bytes") == [(there_key, "rx", whole), (there_key, "tx", 0)]
    assert pick(frames, "dir", "packets", "name") == [("rx", 0, "renamed0"), ("tx", 1000, "renamed0")]
    assert facts == (f"interfaces: {key} is renamed0", "here0 was renamed renamed0 in the window")


@pytest.mark.spec("NET-1")
def test_a_tcp_transfer_is_its_payload_and_its_headers(pair: Pair, drive: Drive) -> None:
    """4 MiB over one connection: each packet carries 66 bytes of headers, the first one eight more of options."""
    size = 4 << 20
    here = pair.here.find("here0")
    with (
        pair.there.open(socket.SOCK_STREAM) as listener,
        drive("net.bytes", here) as moved,
        drive("net.packets", here) as packets,
    ):
        listener.bind(("10.9.0.2", 5001))
        listener.listen()
        with pair.here.open(socket.SOCK_STREAM) as sender:
            sender.connect(("10.9.0.2", 5001))
            taken, _ = listener.accept()
            send_and_take(sender, taken, size)
        assert taken.recv(1) == b""
        taken.close()
        (bytes_row,), (packets_row,) = moved.sample(), packets.sample()
    assert bytes_row["tx_bytes"] == size + 66 * packets_row["tx_packets"] + 8
    assert bytes_row["rx_bytes"] == 66 * packets_row["rx_packets"] + 8


def send_and_take(sender: socket.socket, taken: socket.socket, size: int) -> None:
    """Send so many bytes and take them at the other end, a piece at a time."""
    piece = bytes(1 << 16)
    for _ in range(size // len(piece)):
        sender.sendall(piece)
        left = len(piece)
        while left:
            left -= len(taken.recv(left))


@pytest.mark.spec("RUN-7")
def test_an_interface_that_is_removed_is_the_end(pair: Pair, drive: Drive) -> None:
    """The named interface goes with its pair, and its request ends."""
    with drive("net.packets", pair.here.find("here0")) as driver:
        pair.there.ip("link", "delete", "there0")
        with pytest.raises(TargetGone):
            driver.sample()


@pytest.mark.spec("NET-1")
def test_packets_that_nobody_takes_are_drops_and_no_errors(pair: Pair, drive: Drive) -> None:
    """Frames of a protocol that no one speaks, and of another host's address, fall under their own kinds."""
    there = pair.there.find("there0")
    with (
        drive("net.errors", there) as errors,
        drive("net.errors", there, "dir") as ways,
        drive("net.iface", there, "iface", "counter") as kinds,
    ):
        send_frames(pair.here, "here0", 40)
        send_frames(pair.here, "here0", 30, to=b"\x02\0\0\0\0\x99", protocol=b"\x08\0")
        (row,) = errors.sample()
        by_way = ways.sample()
        failures = {one["counter"]: one["failures"] for one in kinds.sample()}
    assert (row["errors"], row["drops"], row["rx_drops"], row["tx_drops"]) == (0, 40, 40, 0)
    assert pick(by_way, "dir", "errors", "drops", "missed") == [("rx", 0, 40, 0), ("tx", 0, 0, None)]
    moved = {kind: count for kind, count in failures.items() if count}
    assert moved.pop("rx_otherhost_dropped", 30) == 30  # kernels before 5.19 have no such counter
    assert moved == {"rx_dropped": 40}
    assert failures["rx_crc_errors"] == 0


@pytest.mark.spec("NET-1")
def test_frames_that_cannot_be_carried_are_errors_of_their_kind(
    make_network: Callable[[], Network], drive: Drive
) -> None:
    """A tunnel whose other end no route leads to: each frame is an error, and a failed carrier besides."""
    network = make_network()
    network.ip("link", "add", "name", "tunnel0", "type", "vxlan", "id", "5", "remote", "192.0.2.1", "dstport", "4789")
    network.ip("link", "set", "tunnel0", "up")
    tunnel = network.find("tunnel0")
    with drive("net.errors", tunnel) as errors, drive("net.iface", tunnel, "counter") as kinds:
        send_frames(network, "tunnel0", 25)
        (row,) = errors.sample()
        failures = {one["counter"]: one["failures"] for one in kinds.sample() if one["failures"]}
    assert (row["errors"], row["tx_errors"], row["rx_errors"], row["drops"]) == (25, 25, 0, 0)
    assert failures == {"tx_errors": 25, "tx_carrier_errors": 25}


def send_frames(
    network: Network, interface: str, count: int, to: bytes = b"\xff" * 6, protocol: bytes = b"\x88\xb5"
) -> None:
    """Hand so many frames of 60 bytes to an interface's driver, past what routes them."""
    with network.run(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as sender:
        sender.bind((interface, 0))
        for _ in range(count):
            sender.send(to + b"\x02\0\0\0\0\x01" + protocol + bytes(46))
