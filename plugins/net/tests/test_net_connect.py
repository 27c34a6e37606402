"""Connections as programs in the kernel time them, against the calls of the test that made or failed to make them."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from networks import Network, Pair, make_network, pair
from omn_net.connects import name_outcome
from omn_net.socket_fields import spell_address
from socket_events import DriveEvents, drive_events, listen, network, open_socket

from omn_core.testing.fixtures import Command
from omn_core.testing.harness import bind_machine, bind_processes

__all__ = ["drive_events", "make_network", "network", "pair"]

SO_COOKIE = 57
# Connects to itself as often as is said, and exits.
CONNECT = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    for _ in range(int(sys.argv[1])):
        with socket.create_connection(listener.getsockname()):
            listener.accept()[0].close()
"""


def time_call(call: Callable[[], Any]) -> int:
    """Return the nanoseconds of a call."""
    began = time.monotonic_ns()
    call()
    return time.monotonic_ns() - began


@pytest.mark.spec("NET-1", "SRC-4")
@pytest.mark.parametrize(
    ("bound", "address", "shown"),
    [("127.0.0.1", "127.0.0.1", "127.0.0.1"), ("::", "::1", "::1"), ("::", "::ffff:127.0.0.1", "127.0.0.1")],
)
def test_a_connection_is_timed_within_the_call_that_made_it(
    network: Network, drive_events: DriveEvents, bound: str, address: str, shown: str
) -> None:
    """Of either protocol, and of IPv4 through an IPv6 socket: both ends, whose it is, and the kernel's cookie of it."""
    with (
        listen(network, bound) as listener,
        open_socket(network, address) as client,
        drive_events("net.tcp.connect", bind_processes(os.getpid())) as driver,
        drive_events("net.tcp.connect", bind_machine()) as machine,
    ):
        spent_ns = time_call(lambda: client.connect((address, listener.getsockname()[1])))
        own, other = client.getsockname(), client.getpeername()
        cookie = client.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8)
        driver.sample()
        machine.sample()
    (row,) = driver.rows
    seen = [one for one in machine.rows if one["local_port"] == own[1]]
    assert [(one["pid"], one["outcome"]) for one in seen] == [(os.getpid(), "established")]
    assert (row["local_address"], row["remote_address"]) == (shown, shown)
    assert (row["local_port"], row["remote_port"]) == (own[1], other[1])
    assert row["outcome"] == "established"
    assert 0 < row["connect_ns"] <= spent_ns
    assert (row["pid"], row["task"], row["ppid"]) == (os.getpid(), os.getpid(), os.getppid())
    # Before Linux 5.12 a program cannot have the kernel make a cookie.
    assert row.get("sock", 0) in (0, int.from_bytes(cookie, sys.byteorder))
    assert driver.collector.losses().is_empty


@pytest.mark.spec("NET-1", "RUN-9")
def test_what_fails_says_how_and_what_has_no_answer_is_said_at_the_close(pair: Pair, drive_events: DriveEvents) -> None:
    """Each outcome by its port: a closed one, no way there behind a router, silence until the program's own limit."""
    pair.there.write("/proc/sys/net/ipv4/ip_forward", "1")
    pair.there.ip("route", "add", "unreachable", "10.8.0.0/16")
    pair.here.ip("route", "add", "10.8.0.0/16", "via", "10.9.0.2")
    pair.here.ip("neighbour", "add", "10.9.0.7", "lladdr", "02:00:00:00:00:77", "dev", "here0")
    started = pair.here.open(socket.SOCK_STREAM)
    ask(started, ("10.9.0.7", 1000))
    with drive_events("net.tcp.connect", bind_processes(os.getpid())) as driver:
        began_ns = time.monotonic_ns()
        silent = pair.here.open(socket.SOCK_STREAM)
        ask(silent, ("10.9.0.7", 1001))
        limited = pair.here.open(socket.SOCK_STREAM)
        limited.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1)
        for port, host, sender in ((1002, "10.9.0.2", None), (1003, "10.8.0.1", None), (1004, "10.9.0.7", limited)):
            with sender or pair.here.open(socket.SOCK_STREAM) as client:
                assert client.connect_ex((host, port)) == FAILURES[port]
        with pair.here.open(socket.SOCK_STREAM) as left:
            ask(left, ("10.9.0.7", 1005))
        started.close()
        driver.sample()
        passed_ns = time.monotonic_ns() - began_ns
    silent.close()
    outcomes = {row["remote_port"]: row["outcome"] for row in driver.rows}
    assert outcomes == {
        1001: "unanswered",
        1002: "refused",
        1003: "unreachable",
        1004: "timed-out",
        1005: "abandoned",
    }
    times = {row["remote_port"]: row["connect_ns"] for row in driver.rows}
    assert times[1001] > times[1004] > times[1005]
    assert times[1001] <= passed_ns
    assert driver.collector.fields()["unfinished"] == 1
    assert driver.collector.fields()["begun_before"] >= 1
    assert driver.collector.losses().is_empty


@pytest.mark.spec("NET-1", "SRC-4")
def test_a_call_that_fails_by_itself_is_not_abandoned(network: Network, drive_events: DriveEvents) -> None:
    """For want of a port that is said; where another has the same two ends, that it failed; of no way there nothing."""
    with (
        listen(network) as listener,
        open_socket(network, "127.0.0.1") as first,
        open_socket(network, "127.0.0.1") as second,
        open_socket(network, "127.0.0.1") as third,
        open_socket(network, "127.0.0.1") as nowhere,
    ):
        for one in (first, third):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        third.bind(("127.0.0.1", port))
        network.write("/proc/sys/net/ipv4/ip_local_port_range", f"{port} {port}")
        with drive_events("net.tcp.connect", bind_processes(os.getpid())) as driver:
            first.connect(listener.getsockname())
            assert second.connect_ex(listener.getsockname()) == errno.EADDRNOTAVAIL
            assert third.connect_ex(listener.getsockname()) == errno.EADDRNOTAVAIL
            assert nowhere.connect_ex(("10.77.0.1", 7)) == errno.ENETUNREACH
            driver.sample()
        there = listener.getsockname()[1]
    assert [row["outcome"] for row in driver.rows] == ["established", "EADDRNOTAVAIL", "failed"]
    assert [row.get("local_port") for row in driver.rows] == [port, None, port]
    assert {row["remote_port"] for row in driver.rows} == {there}
    assert driver.collector.fields()["unfinished"] == 0
    assert driver.collector.losses().is_empty


FAILURES = {1002: errno.ECONNREFUSED, 1003: errno.EHOSTUNREACH, 1004: errno.ETIMEDOUT}


def ask(client: socket.socket, address: tuple[str, int]) -> None:
    """Ask for a connection without waiting for an answer, which none gives."""
    client.setblocking(False)
    assert client.connect_ex(address) == errno.EINPROGRESS


@pytest.mark.spec("SRC-4")
def test_a_programs_connections_are_its_own_and_no_bystanders(omn: Command, network: Network) -> None:
    """A program and the child that it starts, while another connects as well."""
    script = f"import subprocess, sys; exec({CONNECT!r}); subprocess.run([sys.executable, '-c', {CONNECT!r}, '7'])"
    beside = f"import time\nwhile True:\n    exec({CONNECT!r})\n    time.sleep(0.002)"
    inside = ["ip", "netns", "exec", network.name, sys.executable, "-c"]
    with subprocess.Popen([*inside, beside, "1"]) as bystander:
        try:
            asked = ["-m", "count", "-e", "count", "--keys", "task", "--format", "json"]
            ran = omn("net.tcp.connect", *asked, "--", *inside, script, "5")
        finally:
            bystander.kill()
    assert ran.code == 0, ran.stderr
    assert sorted(series["emits"]["count"]["events"] for series in ran.result["series"]) == [5, 7]
    assert not any(ran.result["losses"][kind] for kind in ("dropped", "skipped", "failed_reads"))


def test_outcomes_have_the_kernels_names_where_they_have_no_own() -> None:
    """An errno that nobody met yet is a number and no guess."""
    assert name_outcome(7, errno.ECONNRESET) == "ECONNRESET"
    assert name_outcome(7, 4095) == "errno 4095"
    assert spell_address(bytes(15) + b"\1") == "::1"
