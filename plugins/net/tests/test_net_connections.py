"""Connections of known outcome, of which none is neither seen nor said to be lost, whoever runs when packets come."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Callable

import pytest
from event_backends import EACH_BACKEND, RECORDED
from networks import Network, Pair, make_network, pair
from omn_kernel.procfs.net import parse_protocol_pairs
from socket_events import DriveEvents, break_off, close_first, drive_events

from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_processes

__all__ = ["drive_events", "make_network", "pair"]

ROUNDS = 60
NOBODYS = 9
"""A port that nobody listens at."""


def read_tcp(network: Network) -> Counter[str]:
    """Read what a namespace's TCP counted."""
    return Counter(parse_protocol_pairs(network.read("snmp"))["Tcp"])


def add_lost(driver: Driver) -> int:
    """Add up what a driver says that it lost, and what it took for unfinished."""
    losses = driver.collector.losses()
    return losses.dropped + losses.skipped + driver.collector.fields()["unfinished"]


@pytest.mark.spec("NET-1", "SRC-4", "EVT-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_what_was_made_is_seen_or_said_to_be_lost(pair: Pair, drive_events: DriveEvents, backend: str) -> None:
    """Packets wait in queues that timers empty, over whatever task is there, a hidden one too."""
    for network, name in ((pair.here, "here0"), (pair.there, "there0")):
        network.tc("qdisc", "add", "dev", name, "root", "tbf", "rate", "3mbit", "burst", "1600", "limit", "100000")
    ways: list[Callable[[socket.socket, socket.socket], None]] = [
        close_first,
        lambda asked, taken: close_first(taken, asked),
        break_off,
    ]
    with pair.there.open(socket.SOCK_STREAM) as listener:
        listener.bind(("10.9.0.2", 0))
        listener.listen()
        before = read_tcp(pair.here), read_tcp(pair.there)
        with (
            drive_events("net.tcp.connect", bind_processes(os.getpid())) as connects,
            drive_events("net.tcp.lifetime", bind_processes(os.getpid()), backend=backend) as lifetimes,
        ):
            for _ in range(ROUNDS):
                for end in ways:
                    asked = pair.here.open(socket.SOCK_STREAM)
                    asked.connect(listener.getsockname())
                    end(asked, listener.accept()[0])
                with pair.here.open(socket.SOCK_STREAM) as refused:
                    assert refused.connect_ex(("10.9.0.2", NOBODYS)) == errno.ECONNREFUSED
            after = read_tcp(pair.here), read_tcp(pair.there)
            for driver in (connects, lifetimes):
                driver.sample()
    made = {"refused": ROUNDS, "established": len(ways) * ROUNDS}
    here, there = (last - first for first, last in zip(before, after, strict=True))
    assert (here["ActiveOpens"], here["AttemptFails"]) == (sum(made.values()), made["refused"])
    assert (here["EstabResets"], there["EstabResets"]) == (ROUNDS, ROUNDS)
    outcomes = Counter(row["outcome"] for row in connects.rows)
    assert all(outcomes[outcome] <= count for outcome, count in made.items())
    assert len(connects.rows) <= sum(made.values()) <= len(connects.rows) + add_lost(connects)
    opened = Counter(row["opened"] for row in lifetimes.rows)
    assert max(opened.values()) <= made["established"]
    # No record tells of a namespace, to whose count one that was taken unseen could be held.
    begun = lifetimes.collector.fields()["begun_before"] if backend == RECORDED else 0
    assert 2 * made["established"] <= opened.total() + add_lost(lifetimes) + begun


@pytest.mark.spec("REQ-9")
@pytest.mark.parametrize("source", ["net.tcp.connect", "net.tcp.lifetime", "net.tcp.retransmit"])
def test_a_process_that_is_over_has_no_connections_to_tell_of(omn: Command, source: str) -> None:
    """It is the machine's refusal, which names it, and nothing ran."""
    with subprocess.Popen(["true"]) as over:
        over.wait()
    refused = omn(source, "-m", "trace", "-e", "raw", "--pid", str(over.pid), "-d", "0.1s")
    assert refused.code == 1
    assert f"there is no process {over.pid}" in refused.stderr
