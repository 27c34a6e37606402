"""Connections from their birth to their close, against what the test sent, received and did to each end itself."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence

import pytest
from event_backends import RECORDED, needs_records
from networks import Network, make_network
from socket_events import DriveEvents, break_off, close_first, drive_events, listen, network, open_socket

from omn_core.testing.fixtures import Command
from omn_core.testing.harness import bind_machine, bind_processes

__all__ = ["drive_events", "make_network", "network"]

ASKED, TAKEN = 70_001, 30_011
"""The bytes that the end that asked sends, and those that the end that was asked sends."""

Ends = tuple[socket.socket, socket.socket]


def make_ends(network: Network, address: str = "127.0.0.1") -> Ends:
    """Make a connection within a namespace: the end that asked, and the one that was asked."""
    with listen(network, "::" if ":" in address else address) as listener:
        asked = open_socket(network, address)
        asked.connect((address, listener.getsockname()[1]))
        return asked, listener.accept()[0]


def move(sender: socket.socket, taker: socket.socket, count: int) -> None:
    """Send so many bytes from one end to the other, which takes them all."""
    sender.sendall(bytes(count))
    while count:
        count -= len(taker.recv(count))


def half_close(first: socket.socket, second: socket.socket) -> None:
    """One end has nothing more to say, and the other still sends to it."""
    first.shutdown(socket.SHUT_WR)
    assert second.recv(1) == b""
    move(second, first, 17)
    second.close()
    assert first.recv(1) == b""
    first.close()


def leave_unread(first: socket.socket, second: socket.socket) -> None:
    """Close an end that has acknowledged bytes left to take, which resets the connection."""
    second.sendall(bytes(19))
    while int.from_bytes(fcntl.ioctl(second, termios.TIOCOUTQ, bytes(4)), sys.byteorder):
        first.recv(1, socket.MSG_PEEK)
    first.close()
    second.close()


HOW: Sequence[tuple[Callable[..., None], bool, tuple[str, str], tuple[str, str], tuple[int, int]]] = [
    (close_first, False, ("FIN_WAIT2", "SYN_SENT"), ("LAST_ACK", "LAST_ACK"), (0, 0)),
    (close_first, True, ("LAST_ACK", "SYN_SENT"), ("FIN_WAIT2", "FIN_WAIT1"), (0, 0)),
    (half_close, False, ("FIN_WAIT2", "SYN_SENT"), ("LAST_ACK", "LAST_ACK"), (0, 17)),
    (half_close, True, ("LAST_ACK", "SYN_SENT"), ("FIN_WAIT2", "FIN_WAIT1"), (17, 0)),
    (break_off, False, ("ESTABLISHED", "SYN_SENT"), ("ESTABLISHED", "CLOSE"), (0, 0)),
    (break_off, True, ("ESTABLISHED", "SYN_SENT"), ("ESTABLISHED", "CLOSE"), (0, 0)),
    (leave_unread, True, ("ESTABLISHED", "SYN_SENT"), ("ESTABLISHED", "CLOSE"), (19, 0)),
]
"""How connections end: by what, from the end that was asked or not, each end's last state and the change that tells
whose it is, and the bytes that it moves besides."""


@pytest.mark.spec("NET-1", "SRC-4")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_bytes_are_exact_on_both_ends_however_a_connection_ends(
    network: Network, drive_events: DriveEvents, address: str
) -> None:
    """The kernel counts what asks and what ends as a byte each, in some of the ways to end: what was sent is not so."""
    ports = []
    with drive_events("net.tcp.lifetime", bind_processes(os.getpid())) as driver:
        for end, from_taken, *_ in HOW:
            asked, taken = make_ends(network, address)
            # Another listener's connection may have the port again that one had before.
            ports.append((asked.getsockname()[1], asked.getpeername()[1]))
            move(asked, taken, ASKED)
            move(taken, asked, TAKEN)
            end(taken, asked) if from_taken else end(asked, taken)
        driver.sample()
    ends = {"asked": ("local_port", "remote_port"), "taken": ("remote_port", "local_port")}
    rows = {(row["opened"], tuple(row[name] for name in ends[row["opened"]])): row for row in driver.rows}
    assert len(rows) == len(driver.rows) == 2 * len(HOW)
    for pair, (_, _, asking, asked_of, (more, less)) in zip(ports, HOW, strict=True):
        ours, theirs = rows["asked", pair], rows["taken", pair]
        assert (ours["state"], ours["attributed"], theirs["state"], theirs["attributed"]) == (*asking, *asked_of)
        assert (ours["tx_bytes"], ours["rx_bytes"]) == (ASKED + more, TAKEN + less)
        assert (theirs["tx_bytes"], theirs["rx_bytes"]) == (TAKEN + less, ASKED + more)
        assert {ours["remote_address"], theirs["remote_address"]} == {"::1" if address == "::1" else "127.0.0.1"}
        assert {ours["pid"], theirs["pid"]} == {os.getpid()}
    # Another program of this machine may have ended a connection meanwhile that was there before.
    assert all(reason.endswith("of which no process was seen") for reason in driver.collector.losses().reasons)
    assert driver.collector.fields()["unfinished"] == 0


@needs_records
@pytest.mark.spec("NET-1", "SRC-4", "KRN-3")
def test_records_tell_of_the_same_connections(network: Network, drive_events: DriveEvents) -> None:
    """How each end began, ended and whose it is, as the sockets tell it, for every way that one may end."""
    with (
        drive_events("net.tcp.lifetime", bind_processes(os.getpid())) as typed,
        drive_events("net.tcp.lifetime", bind_processes(os.getpid()), backend=RECORDED) as own,
        drive_events("net.tcp.lifetime", bind_machine(), backend=RECORDED) as machine,
    ):
        for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
            for end, from_taken, *_ in HOW:
                asked, taken = make_ends(network, address)
                end(taken, asked) if from_taken else end(asked, taken)
        nobodys, taken = make_ends(network)
        nobodys.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        port = nobodys.getsockname()[1]
        nobodys.close()
        for driver in (typed, own, machine):
            driver.sample()
    taken.close()
    skips = [driver.collector.losses().skipped for driver in (own, machine)]
    names = ("local_address", "local_port", "remote_address", "remote_port", "opened", "state", "attributed", "pid")
    wanted, found = ({tuple(row[name] for name in names) for row in driver.rows} for driver in (typed, own))
    assert len(wanted) == 6 * len(HOW) + 1
    # A record that is passed over is of one end, which has no row then, or another.
    assert max(len(wanted - found), len(found - wanted)) <= skips[0]
    assert all(row["lifetime_ns"] > 0 for row in own.rows)
    assert not {"rx_bytes", "tx_bytes", "retransmits", "sock", "proc", "ppid"} & own.rows[0].keys()
    assert own.collector.fields()["unfinished"] <= skips[0]
    left = [row for row in machine.rows if row["remote_port"] == port]
    assert len(left) == 1 or skips[1]
    assert all(row["attributed"] == "nobody" and not row.keys() & {"pid", "task", "comm"} for row in left)
    assert len(wanted - {tuple(row.get(name) for name in names) for row in machine.rows}) <= skips[1]


# Asks for connections to an address, sends on each what it is told to, and takes what comes until the end.
ASK = """
import socket, sys
address, port, count, size = sys.argv[1], *map(int, sys.argv[2:])
for _ in range(count):
    with socket.create_connection((address, port)) as asked:
        asked.sendall(bytes(size))
        asked.shutdown(socket.SHUT_WR)
        while asked.recv(65536): pass
"""
# Takes as many connections as it is told to, and sends back on each as many bytes as come.
TAKE = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    for _ in range(int(sys.argv[1])):
        taken, _ = listener.accept()
        with taken:
            while piece := taken.recv(65536): taken.sendall(piece)
"""


@pytest.mark.spec("SRC-4")
def test_each_end_is_its_own_processs_and_no_bystanders(
    network: Network, drive_events: DriveEvents, omn: Command
) -> None:
    """A program asks another, each in the other's time: it alone is asked about, and the machine.

    Of its own connections it has the end that it asked from, of the machine both ends have their own process.
    """
    inside = ["ip", "netns", "exec", network.name, sys.executable, "-c"]
    with subprocess.Popen([*inside, TAKE, "9"], stdout=subprocess.PIPE, text=True) as taking:
        assert taking.stdout is not None
        port = taking.stdout.readline().strip()
        asked = ["-e", "summary@opened", "-e", "count", "--keys", "task", "--value", "rx_bytes", "--format", "json"]
        with drive_events("net.tcp.lifetime", bind_machine()) as driver:
            ran = omn("net.tcp.lifetime", *asked, "--", *inside, ASK, "127.0.0.1", port, "8", "5000")
            last = subprocess.Popen([*inside, ASK, "127.0.0.1", port, "1", "6000"])
            assert (last.wait(), taking.wait()) == (0, 0)
            driver.sample()
    assert ran.code == 0, ran.stderr
    (series,) = ran.result["series"]
    assert series["emits"]["count"]["events"] == 8
    (row,) = series["emits"]["summary@opened"]["rows"]
    assert (row["attr"], row["count"], row["total"]) == ("asked", 8, 8 * 5000)
    rows = [row for row in driver.rows if int(port) in (row["local_port"], row["remote_port"])]
    asking = {int(ran.result["series"][0]["key"]["task"]): 8, last.pid: 1}
    assert {pid: sum(row["pid"] == pid and row["opened"] == "asked" for row in rows) for pid in asking} == asking
    assert [row["pid"] for row in rows if row["opened"] == "taken"] == [taking.pid] * 9
    assert len(rows) == 18


def test_what_nobody_let_go_of_is_nobodys_and_a_loss_of_a_process(network: Network, drive_events: DriveEvents) -> None:
    """An end that was taken and broken off by the other, of which no process did anything yet."""
    before, answering = make_ends(network)
    with (
        drive_events("net.tcp.lifetime", bind_machine()) as machine,
        drive_events("net.tcp.lifetime", bind_processes(os.getpid())) as own,
    ):
        asked, taken = make_ends(network)
        port = asked.getsockname()[1]
        asked.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        asked.close()
        close_first(before, answering)
        kept = make_ends(network)
        for driver in (machine, own):
            driver.sample()
    taken.close()
    for end in kept:
        end.close()
    assert [row["opened"] for row in own.rows] == ["asked"]
    assert own.collector.losses().dropped >= 1
    assert "of which no process was seen" in own.collector.losses().reasons[-1]
    assert own.collector.fields()["begun_before"] >= 2
    assert own.collector.fields()["unfinished"] == 1
    (nobodys,) = [row for row in machine.rows if row["remote_port"] == port]
    assert nobodys["attributed"] == "nobody"
    assert not nobodys.keys() & {"pid", "task", "comm", "proc", "ppid"}
    assert machine.collector.losses().is_empty
