"""Segments that are sent again, against what the kernel counts of each namespace and of each connection."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import pytest
from event_backends import RECORDED, needs_records
from networks import Network, Pair, make_network, pair
from omn_kernel.procfs.net import parse_protocol_pairs
from socket_events import DriveEvents, drive_events

from omn_core.testing.fixtures import Command
from omn_core.testing.harness import bind_machine, bind_processes

__all__ = ["drive_events", "make_network", "pair"]

THERE = "10.9.0.2"
TCPI_TOTAL_RETRANS, TCPI_BYTES_RETRANS = 100, 208
"""Where they stand in struct tcp_info."""
MOST_BYTES = 1460
"""What a segment carries at most, of a frame of 1500 bytes without the headers of IP and TCP."""


def count_sent_again(network: Network) -> int:
    """Return the segments that a namespace's TCP sent again."""
    return parse_protocol_pairs(network.read("snmp"))["Tcp"]["RetransSegs"]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Look until something is so."""
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def has_unacknowledged(client: socket.socket) -> bool:
    return fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)) != bytes(4)


def read_account(client: socket.socket) -> tuple[int, int]:
    """Return the segments and the bytes that a connection sent again, as it counts them itself."""
    information = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (segments,) = struct.unpack_from("=I", information, TCPI_TOTAL_RETRANS)
    (size,) = struct.unpack_from("=Q", information, TCPI_BYTES_RETRANS)
    return segments, size


def add_up(rows: list[dict[str, Any]], name: str, **wanted: Any) -> int:
    """Add an attribute up over the rows that have some values."""
    return sum(row[name] for row in rows if all(row.get(key) == value for key, value in wanted.items()))


def check_values(found: Iterable[Any], wanted: set[Any], *, lost: int) -> None:
    """Hold the values of rows to those that there are; of segments that passed no tracepoint some may have no row."""
    values = set(found)
    assert values == wanted or (lost and not values - wanted)


@pytest.mark.spec("NET-1", "SRC-4")
def test_each_segment_that_is_sent_again_is_its_connections(pair: Pair, drive_events: DriveEvents) -> None:
    """Acknowledgements are lost for a while: of three connections, and of one that is asked for, at both ends.

    One connection is made in the window, one was there and takes something in it, and one was there and does not. What
    the kernel sends again over a task that it hides from tracepoints is in its own counts alone, and is said as lost.
    """
    pair.here.ip("route", "change", "10.9.0.0/24", "dev", "here0", "src", "10.9.0.1", "rto_min", "5ms")
    with ExitStack() as stack:
        hold = stack.enter_context
        earlier = hold(listen_there(pair))
        taking, silent = (hold(connect(pair, earlier)) for _ in range(2))
        sending, unread = (hold(earlier.accept()[0]) for _ in range(2))
        with (
            drive_events("net.tcp.retransmit", bind_machine()) as machine,
            drive_events("net.tcp.retransmit", bind_processes(os.getpid())) as own,
            drive_events("net.tcp.retransmit", bind_processes(os.getpid()), "sock", mode="count") as counted,
            drive_events("net.tcp.retransmit", bind_processes(os.getpid()), mode="poll") as polled,
        ):
            listener = hold(listen_there(pair))
            port_there = listener.getsockname()[1]
            made = hold(connect(pair, listener))
            hold(listener.accept()[0])
            sending.send(b"1")
            assert taking.recv(1) == b"1"
            before = [count_sent_again(network) for network in (pair.here, pair.there)]
            pair.there.ip("neighbour", "change", "10.9.0.1", "lladdr", "02:00:00:00:00:77", "dev", "there0")
            with pair.here.open(socket.SOCK_STREAM) as asking:
                asking.setblocking(False)
                asking.connect_ex(listener.getsockname())
                for client, size in ((made, 1000), (taking, 5000), (silent, 3000)):
                    client.send(bytes(size))
                wait_until(lambda: min(read_account(client)[0] for client in (made, taking, silent)) >= 2)
                wait_until(lambda: count_sent_again(pair.there) > before[1])
            pair.there.ip("neighbour", "change", "10.9.0.1", "lladdr", "02:00:00:00:00:01", "dev", "there0")
            wait_until(lambda: not any(map(has_unacknowledged, (made, taking, silent))))
            # Nobody is answered again between what the kernel counted and what the drivers saw.
            listener.close()
            after = [count_sent_again(network) for network in (pair.here, pair.there)]
            for driver in (machine, own, polled):
                driver.sample()
            sums = counted.collector.sample(time.monotonic_ns())
            accounts = {client.getsockname()[1]: read_account(client) for client in (made, taking, silent)}
            ports = [client.getsockname()[1] for client in (made, taking, silent)]
        unread.close()
    said = machine.collector.losses().dropped
    ends = [add_up(machine.rows, "segments", local_address=address) for address in ("10.9.0.1", THERE)]
    unseen = [last - first - end for end, first, last in zip(ends, before, after, strict=True)]
    assert min(unseen) >= 0
    assert sum(unseen) <= said
    seen = {
        port: tuple(add_up(machine.rows, name, local_port=port) for name in ("segments", "bytes")) for port in ports
    }
    missing = {port: [part - told for told, part in zip(seen[port], accounts[port], strict=True)] for port in ports}
    assert sum(segments for segments, _ in missing.values()) <= said
    assert all(segments >= 0 and 0 <= size <= segments * MOST_BYTES for segments, size in missing.values())
    check_values((row["state"] for row in machine.rows if row["local_address"] == THERE), {"SYN_RECV"}, lost=said)
    check_values((row["local_port"] for row in own.rows if row["local_address"] == THERE), {port_there}, lost=said)
    check_values((row["pid"] for row in own.rows), {os.getpid()}, lost=said)
    own_sums = [add_up(own.rows, "segments", local_port=port) for port in ports]
    assert own_sums == [*(seen[port][0] for port in ports[:2]), 0]
    assert own.collector.losses().dropped >= seen[ports[2]][0]
    assert said or any("of which no process was seen" in reason for reason in own.collector.losses().reasons)
    assert not any("pid" in row for row in machine.rows if row["local_port"] == ports[2])
    assert all("passed no tracepoint" in reason for reason in machine.collector.losses().reasons)
    assert sums.weight is not None
    assert add_up(own.rows, "segments") == add_up(polled.rows, "segments") == sums.weight.sum()


@needs_records
@pytest.mark.spec("NET-1", "SRC-4", "KRN-3")
def test_records_tell_of_the_same_segments(pair: Pair, drive_events: DriveEvents) -> None:
    """By both ends and the state, with whose they are, what the sockets themselves tell, less what was passed over."""
    pair.here.ip("route", "change", "10.9.0.0/24", "dev", "here0", "src", "10.9.0.1", "rto_min", "5ms")
    with ExitStack() as stack:
        hold = stack.enter_context
        listener = hold(listen_there(pair))
        silent = hold(connect(pair, listener))
        hold(listener.accept()[0])
        with (
            drive_events("net.tcp.retransmit", bind_machine()) as typed,
            drive_events("net.tcp.retransmit", bind_machine(), backend=RECORDED) as single,
            drive_events("net.tcp.retransmit", bind_processes(os.getpid()), backend=RECORDED) as own,
            drive_events("net.tcp.retransmit", bind_processes(os.getpid()), backend=RECORDED, mode="count") as counted,
        ):
            listening = hold(listen_there(pair))
            made = hold(connect(pair, listening))
            pair.there.ip("neighbour", "change", "10.9.0.1", "lladdr", "02:00:00:00:00:77", "dev", "there0")
            before = count_sent_again(pair.there)
            with pair.here.open(socket.SOCK_STREAM) as asking:
                asking.setblocking(False)
                asking.connect_ex(listening.getsockname())
                for client in (made, silent):
                    client.send(bytes(1000))
                wait_until(lambda: min(read_account(client)[0] for client in (made, silent)) >= 2)
                wait_until(lambda: count_sent_again(pair.there) > before)
            pair.there.ip("neighbour", "change", "10.9.0.1", "lladdr", "02:00:00:00:00:01", "dev", "there0")
            wait_until(lambda: not any(map(has_unacknowledged, (made, silent))))
            made_port, silent_port = (client.getsockname()[1] for client in (made, silent))
            # Nobody is answered again while one driver has ended and another not.
            listening.close()
            for driver in (typed, single, own):
                driver.sample()
            sums = counted.collector.sample(time.monotonic_ns())
    skips = [driver.collector.losses().skipped for driver in (single, own, counted)]
    names = ("state", "local_address", "local_port", "remote_address", "remote_port")
    wanted, found = (
        Counter(
            tuple(row[name] for name in names) for row in driver.rows if row["local_address"] in ("10.9.0.1", THERE)
        )
        for driver in (typed, single)
    )
    said = typed.collector.losses().dropped
    assert said or {made_port, silent_port} <= {port for _, _, port, *_ in wanted}
    check_values((state for state, address, *_ in wanted if address == THERE), {"SYN_RECV"}, lost=said)
    assert not found - wanted
    assert (wanted - found).total() <= skips[0]
    assert all(not {"bytes", "sock", "proc", "ppid", "cgroup"} & row.keys() for row in single.rows)
    # The one that was there already did nothing that says whose it is, which is counted.
    ours = Counter({key: count for key, count in wanted.items() if key[2] != silent_port})
    mine = Counter(tuple(row[name] for name in names) for row in own.rows)
    assert not mine - ours
    assert (ours - mine).total() <= skips[1]
    check_values(((row["pid"], row["task"]) for row in own.rows), {(os.getpid(), os.getpid())}, lost=said)
    assert said or any("of which no process was seen" in reason for reason in own.collector.losses().reasons)
    assert sums.weight is not None
    assert ours.total() - skips[2] <= sums.weight.sum() <= ours.total()


def listen_there(pair: Pair) -> socket.socket:
    listener = pair.there.open(socket.SOCK_STREAM)
    listener.bind((THERE, 0))
    listener.listen()
    return listener


def connect(pair: Pair, listener: socket.socket) -> socket.socket:
    client = pair.here.open(socket.SOCK_STREAM)
    client.connect(listener.getsockname())
    return client


@pytest.mark.parametrize("mode", ["count", "poll"])
def test_where_nothing_is_sent_again_the_answer_is_a_zero(drive_events: DriveEvents, mode: str) -> None:
    """Undivided it is a figure; of connections there is none to speak of."""
    me = bind_processes(os.getpid())
    with drive_events("net.tcp.retransmit", me, mode=mode) as whole:
        (row,) = whole.sample()
    assert row["segments"] == 0
    with drive_events("net.tcp.retransmit", bind_processes(os.getpid()), "sock", mode=mode) as divided:
        assert divided.sample() == []


@pytest.mark.spec("RES-1")
def test_without_the_capability_the_kernels_counter_serves(omn: Command) -> None:
    """It says what passed over the programs."""
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed here")
    drop = ["setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-bpf,-sys_admin"]
    asked = ["net.tcp.retransmit", "-m", "count", "-e", "count", "--format", "json", "--system", "-d", "0.1s"]
    ran = subprocess.run([*drop, *omn.argv, *asked], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (result,) = json.loads(ran.stdout)["results"]
    assert result["backend"] == "fs:proc:snmp"
    assert "CAP_BPF" in result["chain"][0]["reason"]
