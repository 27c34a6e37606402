"""Sockets, queues and what cpus did, against what a test made, dropped and counted itself in namespaces of its own."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from another_user import run_as_another_user
from networks import Network, Pair, make_network, pair
from omn_kernel.cpus import FOLDER
from omn_kernel.ethtool import read_driver_counters
from omn_kernel.procfs.interrupts import parse_counts, parse_interrupts
from omn_kernel.procfs.net import parse_softnet
from omn_kernel.sysfs import parse_number_list
from omn_net.udp import Whole, parse_full_queues

from omn_core.api import BoundTarget, MachineRefused, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, bind_processes, release, resolve_onto

__all__ = ["make_network", "pair"]

Drive = Callable[..., Driver]
Inside = Callable[..., dict[str, Any]]


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source on a target."""

    def make(source: str, backend: str, target: BoundTarget, *keys: str, mode: str = "poll") -> Driver:
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode=mode, keys=keys)
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target)

    return make


@pytest.fixture
def inside(omn: Command) -> Inside:
    """Run omn inside a namespace, about the machine, and return its one result."""

    def run(network: Network, *arguments: str) -> dict[str, Any]:
        argv = ["ip", "netns", "exec", network.name, *omn.argv, *arguments]
        done = subprocess.run(argv, capture_output=True, env=omn.environment(), check=False, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        (result,) = json.loads(done.stdout)["results"]
        return dict(result)

    return run


COUNT = ("-m", "count", "-e", "count", "--system", "--format", "json")

OVERFLOW = """
import json, socket, sys
taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
taker.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(30):
    sender.sendto(b"x", ("127.0.0.1", 9))
for _ in range(200):
    sender.sendto(bytes(500), taker.getsockname())
taker.setblocking(False)
taken = 0
try:
    while True:
        taker.recv(600)
        taken += 1
except BlockingIOError:
    pass
with open(sys.argv[1], "w") as file:
    json.dump(taken, file)
"""


@pytest.mark.spec("NET-1")
def test_protocols_count_what_a_program_did(
    make_network: Callable[[], Network], inside: Inside, tmp_path: Path
) -> None:
    """Thirty datagrams to nobody, two hundred to a socket that is full: each counter is exact."""
    network = make_network()
    program = (sys.executable, "-c", OVERFLOW, str(tmp_path / "taken"))
    result = inside(network, "net.snmp", *COUNT, "--keys", "counter", "--", *program)
    taken = json.loads((tmp_path / "taken").read_text())
    counted = {series["key"]["counter"]: series["emits"]["count"]["value"] for series in result["series"]}
    assert 0 < taken < 200
    assert counted["UdpNoPorts"] == counted["IcmpOutDestUnreachs"] == 30
    assert counted["UdpRcvbufErrors"] == counted["UdpInErrors"] == 200 - taken
    assert (counted["UdpInDatagrams"], counted["UdpOutDatagrams"]) == (taken, 230)
    assert "TcpRetransSegs" not in counted
    assert result["losses"]["failed_reads"] == 0


SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(200):
    sender.sendto(bytes(500), ("127.0.0.1", int(sys.argv[1])))
"""


@pytest.mark.spec("NET-1")
def test_a_full_socket_says_what_it_dropped(make_network: Callable[[], Network], inside: Inside) -> None:
    """What it did not take of two hundred; another socket dropped nothing, and a filter tells them apart."""
    network = make_network()
    with network.open() as full, network.open() as empty:
        full.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        for one in (full, empty):
            one.bind(("127.0.0.1", 0))
        port = full.getsockname()[1]
        program = ("--", sys.executable, "-c", SEND, str(port))
        result = inside(network, "net.udp", *COUNT, "--keys", "sock", *program)
        taken = drain(full)
        by_socket = {series["key"]["sock"]: series["emits"]["count"]["value"] for series in result["series"]}
        expected = {read_cookie(full): 200 - taken, read_cookie(empty): 0}
        assert {cookie: by_socket[cookie] for cookie in expected} == expected
        result = inside(network, "net.udp", *COUNT, "--filter", f"local_port == {port}", *program)
        again = drain(full)
    assert 0 < taken < 200
    assert result["series"][0]["emits"]["count"]["value"] == 200 - again
    assert (result["losses"]["failed_reads"], result["fields"]["missing_drops"]) == (0, 0)


@pytest.mark.spec("NET-1")
def test_a_socket_that_no_reading_ever_saw_is_known_to_have_dropped(
    make_network: Callable[[], Network], inside: Inside, tmp_path: Path
) -> None:
    """It came, had no room, and was closed between two readings: no zero, but a lower bound, and by how much."""
    network = make_network()
    program = (sys.executable, "-c", OVERFLOW, str(tmp_path / "taken"))
    result = inside(network, "net.udp", *COUNT, "--", *program)
    taken = json.loads((tmp_path / "taken").read_text())
    assert result["series"][0]["emits"]["count"]["lower_bound"]
    assert result["fields"]["missing_drops"] == 200 - taken
    assert result["losses"]["failed_reads"] == 1
    assert "sockets came and went between two readings" in result["losses"]["reasons"][0]


@pytest.mark.parametrize(
    ("readings", "missing", "found"),
    [
        ([(10, 0), (10, 0)], 0, []),
        ([(15, 5), (15, 0)], 0, []),
        ([(15, 2), (18, 3)], 3, [0]),
        ([(15, 2), (19, 1)], 6, [0, 1]),
        ([(15, 9), (30, 9)], 2, [1]),
        ([(4, 0)], 0, []),
    ],
)
def test_what_is_missing_is_what_the_machine_counted_beyond_the_rows(
    readings: list[tuple[int, int]], missing: int, found: list[int]
) -> None:
    """Rows may hold more, of the moments between both readings; a counter that stepped back proves nothing."""
    whole = Whole(10)
    grew = [whole.advance(counted, in_rows) for counted, in_rows in readings]
    assert whole.missing == missing
    assert [place for place, one in enumerate(grew) if one] == found


def test_datagrams_without_room_are_those_of_both_protocols() -> None:
    """Of IPv4 and of IPv6; a kernel without one, or without the newer counter, has less to say."""
    pairs = b"Udp: InErrors RcvbufErrors MemErrors\nUdp: 9 4 2\nUdpLite: RcvbufErrors\nUdpLite: 50\n"
    six = b"Udp6InErrors\t5\nUdp6RcvbufErrors\t3\nUdpLite6RcvbufErrors\t70\n"
    assert parse_full_queues(pairs, six) == 9
    assert parse_full_queues(b"Udp: RcvbufErrors\nUdp: 4\n", b"") == 4


def drain(one: socket.socket) -> int:
    """Take every datagram that waits, and return how many there were."""
    one.setblocking(False)
    taken = 0
    while True:
        try:
            one.recv(600)
        except BlockingIOError:
            return taken
        taken += 1


def read_cookie(one: socket.socket) -> int:
    """Return a socket's cookie: SO_COOKIE."""
    return int(struct.unpack("=Q", one.getsockopt(socket.SOL_SOCKET, 57, 8))[0])


@pytest.fixture
def connections(make_network: Callable[[], Network]) -> Iterator[Network]:
    """A namespace with three listeners, five connections (both ends of each), four in TIME_WAIT, two half closed."""
    network = make_network()
    with ExitStack() as held:
        listeners = [held.enter_context(closing(network.open(socket.SOCK_STREAM))) for _ in range(3)]
        for one in listeners:
            one.bind(("127.0.0.1", 0))
            one.listen()
        for place in range(11):
            near = held.enter_context(closing(network.open(socket.SOCK_STREAM)))
            near.connect(listeners[0].getsockname())
            far = held.enter_context(closing(listeners[0].accept()[0]))
            if place >= 5:
                near.shutdown(socket.SHUT_WR)
                assert far.recv(1) == b""
            if place >= 7:
                far.close()
                assert near.recv(1) == b""
                near.close()
        yield network


SNAPSHOT = ("-m", "snapshot", "-e", "summary", "--system", "--format", "json")


@pytest.mark.spec("NET-1", "EVT-5")
@pytest.mark.parametrize("backend", ["nl:sock_diag", "fs:proc:tcp"])
def test_sockets_are_counted_by_their_state(connections: Network, inside: Inside, backend: str) -> None:
    """Each state as it was made, zero where there is none, by either way of asking."""
    result = inside(connections, "net.tcp.state", *SNAPSHOT, "--keys", "state", "--backend", f"force:{backend}")
    counts = {series["key"]["state"]: series["emits"]["summary"]["last"] for series in result["series"]}
    expected = {"LISTEN": 3, "ESTABLISHED": 10, "TIME_WAIT": 4, "FIN_WAIT2": 2, "CLOSE_WAIT": 2}
    assert {state: count for state, count in counts.items() if count} == expected
    assert counts["SYN_SENT"] == 0
    whole = inside(connections, "net.tcp.state", *SNAPSHOT)
    assert whole["series"][0]["emits"]["summary"]["last"] == sum(expected.values())


def test_a_processs_sockets_are_those_it_holds(connections: Network, drive: Drive) -> None:
    """Of a process in a namespace of others: what it listens on and both ends of its connection, and no one else's."""
    child = subprocess.Popen(
        ["ip", "netns", "exec", connections.name, sys.executable, "-c", LISTEN_TWICE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        with drive("net.tcp.state", "nl:sock_diag:fd", bind_processes(child.pid), "state") as driver:
            counts = {row["state"]: row["sockets"] for row in driver.sample()}
            assert driver.collector.losses().is_empty
    finally:
        child.stdin.close()
        child.wait()
        child.stdout.close()
    assert {state: count for state, count in counts.items() if count} == {"LISTEN": 2, "ESTABLISHED": 2}
    assert "TIME_WAIT" not in counts


LISTEN_TWICE = """
import socket, sys
first, second = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(first.getsockname())
far, _ = first.accept()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.spec("NET-1")
def test_a_round_trip_is_what_the_socket_itself_says(drive: Drive) -> None:
    """Of both ends of a connection that was used: what getsockopt(TCP_INFO) reads, by the socket's own cookie."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as held:
        near = held.enter_context(socket.create_connection(listener.getsockname()))
        far = held.enter_context(listener.accept()[0])
        for _ in range(20):
            near.sendall(b"question")
            far.recv(8)
            far.sendall(b"answer")
            near.recv(6)
        said: list[tuple[int, int]] = []
        # The last answer is acknowledged later, by a timer, and that is a round trip too.
        while said != (now := [read_round_trip(one) for one in (near, far)]):
            said = now
            with drive("net.tcp.rtt", "nl:sock_diag:fd", bind_processes(os.getpid()), "sock", "local_port") as driver:
                rows = {row["sock"]: row for row in driver.sample()}
            with drive("net.tcp.rtt", "nl:sock_diag", bind_machine(), "sock", "remote_address") as machine:
                every = {row["sock"]: row for row in machine.sample()}
        for one, (rtt_ns, variation_ns) in zip((near, far), said, strict=True):
            row = rows[read_cookie(one)]
            assert (row["rtt_ns"], row["rttvar_ns"]) == (rtt_ns, variation_ns)
            assert (row["local_port"], row["pid"]) == (one.getsockname()[1], os.getpid())
            assert row["min_rtt_ns"] > 0
            assert every[read_cookie(one)]["rtt_ns"] == rtt_ns
            assert every[read_cookie(one)]["remote_address"] == "127.0.0.1"
        assert read_cookie(listener) not in rows


def read_round_trip(one: socket.socket) -> tuple[int, int]:
    """Return tcpi_rtt and tcpi_rttvar of a socket, nanoseconds."""
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    rtt, variation = struct.unpack_from("=II", info, 68)
    return rtt * 1000, variation * 1000


@pytest.mark.spec("NET-1")
def test_a_full_queue_drops_what_its_sender_is_refused(pair: Pair, drive: Drive) -> None:
    """A sender that asks for errors counts its refused datagrams; what left, waits and was dropped is all there was."""
    here = pair.here.find("here0")
    pair.here.tc(
        "qdisc",
        "add",
        "dev",
        "here0",
        "root",
        "handle",
        "7:",
        *["tbf", "rate", "80kbit", "burst", "2000", "limit", "6000"],
    )
    target = BoundTarget(Target("iface", "here0"), "interface", place=here)
    with (
        drive("net.qdisc", "nl:route:qdisc", target) as whole,
        drive("net.qdisc", "nl:route:qdisc", target, "qdisc") as divided,
        pair.here.open() as sender,
    ):
        sender.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
        refused = 0
        for _ in range(100):
            try:
                sender.sendto(bytes(458), ("10.9.0.2", 4009))
            except OSError:
                refused += 1
        (row,) = whole.sample()
        rows = {one["qdisc"]: one for one in divided.sample()}
    assert refused > 0
    assert row["drops"] == refused
    assert row["packets"] + row["queued"] + row["drops"] == 100
    assert row["bytes"] == 500 * row["packets"]
    assert row["backlog_bytes"] == 500 * row["queued"]
    assert (row["kind"], row["name"], row["iface"]) == ("tbf", "here0", here.key)
    assert rows["tbf 7:"]["drops"] == refused
    assert rows["tbf 7:"]["overlimits"] >= 1


def test_a_driver_counts_under_its_own_names(make_network: Callable[[], Network], drive: Drive) -> None:
    """Frames handed to an ifb are its driver's packets of a queue, and the kernel's kinds know nothing of them."""
    network = make_network()
    network.ip("link", "add", "name", "driver0", "numrxqueues", "1", "numtxqueues", "1", "type", "ifb")
    network.ip("link", "set", "driver0", "up")
    target = BoundTarget(Target("iface", "driver0"), "interface", place=network.find("driver0"))
    with drive("net.iface", "ioctl:ethtool", target, "counter") as driver:
        with network.run(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as sender:
            sender.bind(("driver0", 0))
            for _ in range(12):
                sender.send(b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(46))
        rows = {row["counter"]: row["failures"] for row in driver.sample()}
    assert rows == {"rx_queue_0_packets": 12, "rx_queue_0_bytes": 12 * 60}


def test_an_interface_without_counters_of_its_own_has_none() -> None:
    """The loopback's driver counts nothing, and an interface that is not there is an error."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        assert read_driver_counters(connection, "lo") == {}
        with pytest.raises(OSError, match="No such device"):
            read_driver_counters(connection, "omn-none")


def read_by_hand() -> tuple[int, int]:
    """Return the packets that all cpus processed, and their NET_RX."""
    online = parse_number_list(Path(f"{FOLDER}/online").read_bytes())
    processed = parse_softnet(Path("/proc/net/softnet_stat").read_bytes(), online)
    table = parse_interrupts(Path("/proc/softirqs").read_bytes())
    return (
        sum(counts["processed"] for counts in processed.values()),
        sum(parse_counts(table.lines["NET_RX"], len(table.cpus))),
    )


@pytest.mark.spec("NET-1", "RUN-10")
def test_what_cpus_did_with_packets_lies_between_readings_by_hand(drive: Drive) -> None:
    """A thousand datagrams over the loopback: so many were processed at the least, and no more than the files say."""
    outer = read_by_hand()
    with (
        drive("net.backlog", "fs:proc:softnet_stat", bind_machine(), "cpu") as backlog,
        drive("net.softirq", "fs:proc:softirqs", bind_machine(), "dir") as served,
    ):
        inner = read_by_hand()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind(("127.0.0.1", 0))
            for _ in range(1000):
                one.sendto(b"x", one.getsockname())
                one.recv(1)
        inner = tuple(now - then for now, then in zip(read_by_hand(), inner, strict=True))
        rows, ways = backlog.sample(), served.sample()
        outer = tuple(now - then for now, then in zip(read_by_hand(), outer, strict=True))
    received = sum(row["softirqs"] for row in ways if row["dir"] == "rx")
    assert 1000 <= inner[0] <= sum(row["processed"] for row in rows) <= outer[0]
    assert inner[1] <= received <= outer[1]
    assert all(row["dropped"] >= 0 and row["backlog"] >= 0 for row in rows)


@pytest.mark.parametrize("source", ["net.tcp.state", "net.tcp.rtt"])
def test_another_users_sockets_are_refused_by_the_capability(source: str) -> None:
    """His descriptors are closed, and so are which sockets they name; those of the machine are everyone's to list."""
    printed = run_as_another_user(
        """
        from omn_core.api import MachineRefused, Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.testing.harness import Driver, bind_machine, bind_processes, resolve_onto
        registry = discover()
        catalog = load_catalog(registry)
        """
        f"""
        source = {source!r}
        factories = {{name: registry.load(registry.collectors[source, name].factory)
                     for name in ("nl:sock_diag", "nl:sock_diag:fd")}}
        """,
        f"""
        target = bind_processes({os.getpid()})
        resolved = resolve_onto(catalog.entries[source], "nl:sock_diag:fd", target.target)
        try:
            Driver(factories["nl:sock_diag:fd"](), resolved, target).__enter__()
        except MachineRefused as refused:
            print(refused)
        resolved = resolve_onto(catalog.entries[source], "nl:sock_diag", Target("system"))
        with Driver(factories["nl:sock_diag"](), resolved, bind_machine()) as driver:
            driver.sample()
            print(driver.collector.losses().is_empty)
        """,
    )
    refusal, is_whole = printed.splitlines()
    assert "does not let this user read its fd: CAP_SYS_PTRACE is missing" in refusal
    assert is_whole == "True"


@pytest.mark.spec("RUN-7")
def test_a_process_that_ends_takes_its_sockets_along(drive: Drive) -> None:
    """At once a refusal, later the end of the request; never a count of zero."""
    child = subprocess.Popen([sys.executable, "-c", LISTEN_TWICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == b"ready\n"
    with drive("net.tcp.state", "nl:sock_diag:fd", bind_processes(child.pid)) as driver:
        (row,) = driver.sample()
        assert row["sockets"] == 4
        target = bind_processes(child.pid)
        child.stdin.close()
        child.wait()
        child.stdout.close()
        with pytest.raises(TargetGone):
            driver.sample()
    late = drive("net.tcp.state", "nl:sock_diag:fd", target)
    with pytest.raises(MachineRefused, match="has ended"):
        late.__enter__()
    release(target)
