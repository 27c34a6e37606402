"""What programs see of connections and packets, each counted by the test that makes them on the loopback."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections import Counter
from collections.abc import Callable

import attrs
import pytest

from omn_core.api import BoundTarget
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto

ASKED, TAKEN = 7_000, 3_000
Trace = Callable[..., Driver]


@pytest.fixture
def trace(registry: Registry, catalog: Catalog) -> Trace:
    """Make the driver of a source through its programs, its answer every event with all of its fields."""

    def make(source: str, target: BoundTarget, backend: str = "bpf:raw_tp") -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="trace")
        resolved = attrs.evolve(resolved, emits=(EmitSpec("raw"),))
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target)

    return make


def move(sender: socket.socket, taker: socket.socket, count: int) -> None:
    sender.sendall(bytes(count))
    while count:
        count -= len(taker.recv(count))


def exchange(address: str) -> int:
    """Make a connection, move bytes both ways, close it from the end that asked; return the port that was asked."""
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        with socket.create_connection(listener.getsockname()[:2]) as asking:
            taken, _ = listener.accept()
            move(asking, taken, ASKED)
            move(taken, asking, TAKEN)
        assert taken.recv(1) == b""
        taken.close()
        return int(listener.getsockname()[1])


def ask_again() -> int:
    """Ask for more connections than a listener takes, until one is asked for again; return the port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        asking = [socket.socket() for _ in range(3)]
        for one in asking:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        deadline = time.monotonic() + 30
        while not any(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[100] for one in asking):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for one in asking:
            one.close()
        return int(listener.getsockname()[1])


@pytest.mark.spec("KRN-9", "NET-1", "SRC-4")
def test_connections_and_packets_are_seen_by_programs(trace: Trace) -> None:
    """Connections of both protocols to the byte, one refused, one asked for again, datagrams that came for nobody."""
    me = os.getpid()
    with (
        trace("net.tcp.connect", bind_processes(me)) as connects,
        trace("net.tcp.lifetime", bind_processes(me)) as lifetimes,
        trace("net.tcp.retransmit", bind_processes(me)) as retransmits,
        trace("net.drops", bind_machine()) as drops,
        trace("net.softirq", bind_machine()) as softirqs,
    ):
        ports = [exchange("127.0.0.1"), exchange("::1")]
        with socket.socket() as refused:
            refused.connect_ex(("127.0.0.1", 9))
        again = ask_again()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(20):
                sender.sendto(b"x" * 50, ("127.0.0.1", 9))
        for driver in (connects, lifetimes, retransmits, drops, softirqs):
            driver.sample()
    outcomes = {row["remote_port"]: row["outcome"] for row in connects.rows if row["remote_port"] != again}
    assert outcomes == {9: "refused", **dict.fromkeys(ports, "established")}
    whole = [row for row in lifetimes.rows if {row["local_port"], row["remote_port"]} & set(ports)]
    moved = {(row["opened"], row["remote_address"]): (row["tx_bytes"], row["rx_bytes"]) for row in whole}
    for address in ("127.0.0.1", "::1"):
        assert moved["asked", address] == (ASKED, TAKEN)
        assert moved["taken", address] == (TAKEN, ASKED)
    assert {row["pid"] for driver in (connects, lifetimes, retransmits) for row in driver.rows} == {me}
    sent_again = [row for row in retransmits.rows if row.get("remote_port") == again]
    assert {(row["state"], row["segments"]) for row in sent_again} == {("SYN_SENT", 1)}
    lost = Counter(row.get("reason") for row in drops.rows if row.get("protocol") == "UDP" and row.get("name") == "lo")
    assert lost in (Counter({"NO_SOCKET": 20}), Counter({None: 20}))
    assert {row["dir"] for row in softirqs.rows} >= {"rx"}
    assert all(driver.collector.losses().skipped == 0 for driver in (connects, lifetimes, retransmits, drops, softirqs))


@pytest.mark.spec("KRN-9", "NET-1", "SRC-4")
def test_connections_are_told_by_records(trace: Trace) -> None:
    """Both ends of those of both protocols, how each began, ended and whose it is, and one that is asked for again."""
    me = os.getpid()
    with (
        trace("net.tcp.lifetime", bind_processes(me), "bpf:tp") as lifetimes,
        trace("net.tcp.retransmit", bind_processes(me), "bpf:tp") as retransmits,
    ):
        ports = [exchange("127.0.0.1"), exchange("::1")]
        again = ask_again()
        for driver in (lifetimes, retransmits):
            driver.sample()
    whole = [row for row in lifetimes.rows if {row["local_port"], row["remote_port"]} & set(ports)]
    told = {(row["opened"], row["remote_address"], row["state"], row["attributed"], row["pid"]) for row in whole}
    assert told == {
        end
        for address in ("127.0.0.1", "::1")
        for end in (("asked", address, "FIN_WAIT2", "SYN_SENT", me), ("taken", address, "LAST_ACK", "LAST_ACK", me))
    }
    assert len(whole) == len(told)
    sent_again = [row for row in retransmits.rows if row.get("remote_port") == again]
    assert {(row["state"], row["segments"], row["pid"]) for row in sent_again} == {("SYN_SENT", 1, me)}


UNROUTED = {"10.77.0.1": "10.77.0.1", "2001:db8::1": "2001:db8::1", "::ffff:10.77.0.2": "10.77.0.2"}
"""Addresses that a guest has no way to, and how each is shown."""


@pytest.mark.spec("KRN-9", "NET-1", "SRC-4")
def test_calls_that_fail_by_themselves_say_why(trace: Trace) -> None:
    """Where the call's function is followed: no way there of either protocol, no port, beside what others answer."""
    with trace("net.tcp.connect", bind_processes(os.getpid()), "bpf:fentry") as connects:
        ports = [exchange("127.0.0.1"), exchange("::1")]
        asked = {shown: ask(address, 7) for address, shown in UNROUTED.items()}
        assert ask("::ffff:127.0.0.1", 9) == errno.ECONNREFUSED
        with socket.create_server(("127.0.0.1", 0)) as listener:
            there = listener.getsockname()
            with open_again() as first:
                first.connect(there)
                with open_again(first.getsockname()[1]) as second:
                    assert second.connect_ex(there) == errno.EADDRNOTAVAIL
        connects.sample()
    assert set(asked.values()) == {errno.ENETUNREACH}
    outcomes = Counter((row["remote_address"], row["remote_port"], row["outcome"]) for row in connects.rows)
    assert outcomes == Counter(
        [
            ("127.0.0.1", ports[0], "established"),
            ("::1", ports[1], "established"),
            *((shown, 7, "unreachable") for shown in asked),
            ("127.0.0.1", 9, "refused"),
            (*there, "established"),
            (*there, "EADDRNOTAVAIL"),
        ]
    )
    assert all(row["connect_ns"] > 0 and row["pid"] == os.getpid() for row in connects.rows)
    assert connects.collector.fields()["unfinished"] == 0
    assert connects.collector.losses().is_empty


def ask(address: str, port: int) -> int:
    """Ask for a connection, and return the errno."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as asking:
        return asking.connect_ex((address, port))


def open_again(port: int = 0) -> socket.socket:
    """Open a socket at a port that another may have too."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind(("127.0.0.1", port))
    return opened
