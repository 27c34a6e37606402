"""Packets that the kernel threw away, against the counters of the namespaces and queues that they were lost in."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from event_backends import RECORDED, needs_records
from networks import Network, Pair, make_network, pair
from omn_kernel.bpf.attaching import AnyHook
from omn_kernel.bpf.collecting import ProgramCollector
from omn_kernel.bpf.reading import KernelAssembly
from omn_kernel.interfaces import Interface
from omn_kernel.procfs.net import parse_protocol_pairs
from omn_kernel.symbols import namers
from omn_net.packet_names import name_protocol, name_reasons
from socket_events import DriveEvents, drive_events

from omn_core.api import BoundTarget, Target
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import bind_machine

__all__ = ["drive_events", "make_network", "pair"]

SO_COOKIE = 57
UNKNOWN = b"\x88\xb5"
"""An ethertype that nobody speaks (of local experiments)."""


def send_frames(network: Network, interface: str, count: int, to: bytes, protocol: bytes) -> None:
    """Hand frames of 60 bytes to an interface's driver, past what routes them."""
    with network.run(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as sender:
        sender.bind((interface, 0))
        for _ in range(count):
            sender.send(to + b"\x02\0\0\0\0\x01" + protocol + bytes(46))


def read_udp(network: Network) -> dict[str, int]:
    """Return what a namespace's UDP counted."""
    return dict(parse_protocol_pairs(network.read("snmp"))["Udp"])


def read_queue_drops(network: Network, interface: str) -> int:
    """Return what the queue of an interface dropped, by tc(8)."""
    asked = ["tc", "-n", network.name, "-s", "-j", "qdisc", "show", "dev", interface]
    shown = json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)
    return sum(queue["drops"] for queue in shown)


def bind(interface: Interface) -> BoundTarget:
    return BoundTarget(Target("iface", interface.name), "interface", place=interface)


@pytest.mark.spec("NET-1", "SRC-4")
def test_each_way_to_lose_packets_has_its_reason_its_place_and_its_number(
    pair: Pair, drive_events: DriveEvents
) -> None:
    """No socket, a full one, no protocol, another host's address, a full queue; what is delivered is no drop."""
    here, there = pair.here.find("here0"), pair.there.find("there0")
    pair.here.tc("qdisc", "add", "dev", "here0", "root", "tbf", "rate", "1mbit", "burst", "100kb", "limit", "3000")
    with pair.there.open() as full:
        full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        full.bind(("10.9.0.2", 4020))
        cookie = int.from_bytes(full.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), sys.byteorder)
        before = read_udp(pair.there)
        with (
            drive_events("net.drops", bind_machine()) as machine,
            drive_events("net.drops", bind(there)) as on_there,
            drive_events("net.drops", bind(there), "protocol", mode="count") as counted,
        ):
            pair.send(25, 100, port=4010)
            pair.send(60, 500, port=4020)
            pair.send(5, 100)
            send_frames(pair.here, "here0", 40, b"\xff" * 6, UNKNOWN)
            send_frames(pair.here, "here0", 30, b"\x02\0\0\0\0\x99", b"\x08\0")
            after = read_udp(pair.there)
            pair.send(120, 1400)
            queued = read_queue_drops(pair.here, "here0")
            for driver in (machine, on_there):
                driver.sample()
            sums = counted.collector.sample(0)
            protocols = sums.keys["protocol"].to_list()
    ours = [row for row in machine.rows if row.get("iface") in (here.key, there.key)]
    seen = Counter((row["reason"], row.get("protocol"), row["iface"]) for row in ours)
    full_drops = after["RcvbufErrors"] - before["RcvbufErrors"]
    assert after["NoPorts"] - before["NoPorts"] == 25
    assert full_drops > 0
    assert queued > 0
    expected = {
        ("NO_SOCKET", "UDP", there.key): 25,
        ("SOCKET_RCVBUFF", "UDP", there.key): full_drops,
        ("UNHANDLED_PROTO", "0x88b5", there.key): 40,
        ("OTHERHOST", "IPv4 0", there.key): 30,
        ("QDISC_DROP", "UDP", here.key): queued,
    }
    assert {key: seen[key] for key in expected} == expected
    assert sum(seen.values()) == sum(expected.values())
    assert Counter(row["reason"] for row in on_there.rows) == {
        reason: count for (reason, _, key), count in expected.items() if key == there.key
    }
    assert sums.weight is not None
    assert dict(zip(protocols, sums.weight.tolist(), strict=True)) == {
        "UDP": 25 + full_drops,
        "0x88b5": 40,
        "IPv4 0": 30,
    }
    assert {row["name"] for row in ours if "name" in row} == {"here0", "there0"}
    assert {row.get("sock") for row in ours if row["reason"] == "SOCKET_RCVBUFF"} <= {cookie, None}
    assert {row["bytes"] for row in ours if row["reason"] == "NO_SOCKET"} == {108}
    functions = {line.split()[2] for line in Path("/proc/kallsyms").read_text().splitlines()}
    assert {row["location"].rpartition("+")[0] for row in ours} <= functions
    assert machine.collector.losses().is_empty


@needs_records
@pytest.mark.spec("NET-1", "SRC-4")
def test_records_tell_of_the_same_drops(pair: Pair, drive_events: DriveEvents) -> None:
    """By reason, place and ethertype, what the packets themselves tell, less at most what the kernel passed over."""
    with (
        drive_events("net.drops", bind_machine()) as typed,
        drive_events("net.drops", bind_machine(), backend=RECORDED) as single,
        drive_events("net.drops", bind_machine(), "protocol", backend=RECORDED, mode="count") as counted,
    ):
        send_frames(pair.here, "here0", 40, b"\xff" * 6, UNKNOWN)
        pair.send(25, 100, port=4010)
        for driver in (typed, single):
            driver.sample()
        sums = counted.collector.sample(0)
        protocols = sums.keys["protocol"].to_list()
    skips = [driver.collector.losses().skipped for driver in (single, counted)]
    wanted, found = (
        Counter((row["reason"], row["location"]) for row in driver.rows if row.get("protocol") == "0x88b5")
        for driver in (typed, single)
    )
    assert wanted.total() == 40
    assert not found - wanted
    assert found.total() >= 40 - skips[0]
    assert sum(row["reason"] == "NO_SOCKET" and row["protocol"] == "IPv4" for row in single.rows) >= 25 - skips[0]
    assert not {"bytes", "iface", "sock", "name"} & single.rows[0].keys()
    assert sums.weight is not None
    assert 40 - skips[1] <= dict(zip(protocols, sums.weight.tolist(), strict=True))["0x88b5"] <= 40


@pytest.mark.spec("NET-1")
def test_a_stack_is_the_kernels_way_to_where_a_packet_was_freed(pair: Pair, omn: Command) -> None:
    """From the command line, of one interface: nothing of whoever's program it interrupted."""
    send = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        "[s.sendto(bytes(58), ('10.9.0.2', 4010)) for _ in range(20)]"
    )
    program = ["ip", "netns", "exec", pair.here.name, sys.executable, "-c", send]
    asked = ["-m", "trace", "-e", "stack", "-e", "topk:3@reason", "--iface", f"{pair.there.name}/there0"]
    ran = omn("net.drops", *asked, "--format", "json", "--", *program)
    assert ran.code == 0, ran.stderr
    (series,) = ran.result["series"]
    (reason,) = series["emits"]["topk:3@reason"]["rows"]
    assert (reason["key"], reason["value"]) == ({"reason": "NO_SOCKET"}, 20)
    rows = series["emits"]["stack"]["rows"]
    assert sum(row["count"] for row in rows) == 20
    for row in rows:
        assert any("udp4_lib_rcv" in frame for frame in row["frames"])
        assert not any("ython" in frame for frame in row["frames"])


def test_where_nothing_is_dropped_the_count_is_a_zero(pair: Pair, drive_events: DriveEvents) -> None:
    """Undivided it is a figure, and of a polled or traced one there is nothing to speak of."""
    with drive_events("net.drops", bind(pair.there.find("there0")), mode="count") as quiet:
        (row,) = quiet.sample()
    assert row["packets"] == 0


def test_a_place_is_absent_where_the_kernel_hides_its_addresses(
    pair: Pair, drive_events: DriveEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an address, and no name of another function; the facts say why."""
    monkeypatch.setattr(namers, "read_kernel_symbols", lambda sysroot: None)
    with drive_events("net.drops", bind(pair.there.find("there0"))) as driver:
        pair.send(3, 100, port=4010)
        driver.sample()
    assert [row["reason"] for row in driver.rows] == ["NO_SOCKET"] * 3
    assert not any("location" in row for row in driver.rows)
    assert any("kptr_restrict" in fact for fact in driver.collector.facts())


def test_packets_and_reasons_have_the_kernels_names() -> None:
    """A number that nobody named stays one; a kernel that says no reason has none."""
    assert name_protocol(0x0800, 6) == name_protocol(0x86DD, 6) == "TCP"
    assert name_protocol(0x86DD, 199) == "IPv6 199"
    assert (name_protocol(0x0806, 0), name_protocol(0, 0)) == ("ARP", None)
    assert (name_protocol(0x0800, None), name_protocol(0x86DD, None)) == ("IPv4", "IPv6")
    name = name_reasons({"SKB_DROP_REASON_NO_SOCKET": 3})
    assert (name(3), name(0x10002), name(-1)) == ("NO_SOCKET", "0x10002", None)


@pytest.mark.spec("KRN-2")
@pytest.mark.parametrize("has_typed_pointers", [True, False])
@pytest.mark.parametrize(
    "source", ["net.drops", "net.softirq", "net.tcp.connect", "net.tcp.lifetime", "net.tcp.retransmit"]
)
def test_programs_load_with_pointers_of_types_and_as_numbers(
    drive_events: DriveEvents, monkeypatch: pytest.MonkeyPatch, source: str, has_typed_pointers: bool
) -> None:
    """The second is what kernels before 5.12 take; a program that loads in neither shape would be found there alone."""
    load = ProgramCollector._load_kernel

    def load_so(
        collector: ProgramCollector,
        name: str,
        write: Callable[[KernelAssembly], None],
        typed: AnyHook,
        otherwise: AnyHook,
    ) -> None:
        hook = typed if has_typed_pointers else otherwise
        load(collector, name, write, hook, has_typed_pointers=has_typed_pointers)

    monkeypatch.setattr(ProgramCollector, "_load_either", load_so)
    with drive_events(source, bind_machine()) as driver:
        driver.sample()
    assert driver.collector.losses().skipped == 0
