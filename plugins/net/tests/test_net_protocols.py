"""net.snmp, net.tcp.retransmit, net.socket: files of several kernels, and counts that a program made on purpose."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from omn_kernel.procfs.net import parse_protocol6, parse_protocol_pairs, parse_socket_counts

from omn_core.api import MachineRefused, RequestError
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]

SNMP = """Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 {ip}
IcmpMsg:{types}
IcmpMsg:{counts}
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab RetransSegs
Tcp: 1 200 120000 -1 {opens} {established} {retransmits}
Udp: InDatagrams NoPorts RcvbufErrors
Udp: {udp} 0 0
"""
NETSTAT = """TcpExt: SyncookiesSent ListenOverflows
TcpExt: 0 {overflows}
IpExt: InOctets OutOctets
IpExt: {octets} 5
"""
SNMP6 = "Ip6InReceives         \t{ip6}\nIcmp6InType134        \t3\nUdp6InDatagrams       \t7\n"


def write(sysroot: Sysroot, six: bool = True, types: str = " InType3", counts: str = " 2", **counted: int) -> None:
    """Write the three files; what is not named is one."""
    names = ("ip", "opens", "established", "retransmits", "udp", "overflows", "octets", "ip6")
    values: dict[str, Any] = dict.fromkeys(names, 1) | counted | {"types": types, "counts": counts}
    sysroot.write("/proc/net/snmp", SNMP.format(**values)).write("/proc/net/netstat", NETSTAT.format(**values))
    if six:
        sysroot.write("/proc/net/snmp6", SNMP6.format(**values))


@pytest.fixture
def drive(registry: Registry, catalog: Catalog) -> Drive:
    """Make the driver of a source of the machine, on a tree where one is given."""

    def drive_one(source: str, backend: str, *keys: str, sysroot: str = "/", mode: str = "poll") -> Driver:
        target = bind_machine()
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode=mode, keys=keys)
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target, sysroot=sysroot)

    return drive_one


def pick(rows: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


def test_names_and_values_are_two_lines_of_one_protocol() -> None:
    """A line whose pair is missing, and a counter without a value, are not there."""
    content = b"Ip: Forwarding InReceives\nIp: 2 18446744073709551615\nTcp: A B\nTcp: -1\nOdd: C\n"
    assert parse_protocol_pairs(content) == {
        "Ip": {"Forwarding": 2, "InReceives": 18446744073709551615},
        "Tcp": {"A": -1},
    }


def test_the_counters_of_ipv6_are_told_by_their_names() -> None:
    """Whatever stands between a name and its number; UdpLite6 is a protocol of its own."""
    content = b"Ip6InReceives                   \t4\nUdpLite6InErrors 2\nIcmp6OutType143                 \t9\n"
    assert parse_protocol6(content) == {
        "Ip6": {"InReceives": 4},
        "UdpLite6": {"InErrors": 2},
        "Icmp6": {"OutType143": 9},
    }


@pytest.mark.spec("NET-1")
def test_only_what_moved_is_in_an_interval(sysroot: Sysroot, drive: Drive) -> None:
    """Each by its own name; settings and connections of this moment are no counters and grow by nothing."""
    write(sysroot)
    with drive("net.snmp", "fs:proc:snmp", "counter", sysroot=str(sysroot)) as driver:
        write(sysroot, ip=4, established=9, overflows=3, ip6=2)
        rows = driver.sample()
        assert driver.sample() == []
    assert pick(rows, "counter", "protocol", "amount") == [
        ("IpInReceives", "Ip", 3),
        ("TcpExtListenOverflows", "TcpExt", 2),
        ("Ip6InReceives", "Ip6", 1),
    ]


@pytest.mark.spec("NET-1")
def test_a_snapshot_lists_every_counter(sysroot: Sysroot, drive: Drive) -> None:
    """Those that stand still, and what is none, too."""
    write(sysroot, established=9)
    with drive("net.snmp", "fs:proc:snmp", "counter", sysroot=str(sysroot), mode="snapshot") as driver:
        amounts = {row["counter"]: row["amount"] for row in driver.sample()}
    assert len(amounts) == 3 + 1 + 7 + 3 + 2 + 2 + 3
    assert (amounts["TcpCurrEstab"], amounts["TcpMaxConn"], amounts["Icmp6InType134"]) == (9, -1, 3)


def test_a_type_of_message_counts_from_its_first(sysroot: Sysroot, drive: Drive) -> None:
    """The kernel writes no type that never came: one that is new in a reading was none before."""
    write(sysroot)
    with drive("net.snmp", "fs:proc:snmp", "counter", sysroot=str(sysroot)) as driver:
        write(sysroot, types=" InType3 OutType8", counts=" 5 4")
        assert pick(driver.sample(), "counter", "amount") == [("IcmpMsgInType3", 3), ("IcmpMsgOutType8", 4)]


@pytest.mark.spec("EVT-5")
def test_a_step_back_leaves_one_protocol_unknown(sysroot: Sysroot, drive: Drive) -> None:
    """The others' counters stand."""
    write(sysroot, ip=10, udp=10)
    with drive("net.snmp", "fs:proc:snmp", "counter", sysroot=str(sysroot)) as driver:
        write(sysroot, ip=3, udp=12)
        assert pick(driver.sample(), "counter", "amount") == [("UdpInDatagrams", 2)]
        assert driver.collector.losses().reasons[0].startswith("the kernel's IpInReceives of Ip stepped back")


def test_a_kernel_without_ipv6_has_a_file_less(sysroot: Sysroot, drive: Drive) -> None:
    """The protocols that are there are counted."""
    write(sysroot, six=False)
    with drive("net.snmp", "fs:proc:snmp", "counter", sysroot=str(sysroot)) as driver:
        write(sysroot, six=False, udp=3)
        assert pick(driver.sample(), "counter", "amount") == [("UdpInDatagrams", 2)]


def test_counters_of_different_things_have_no_sum(sysroot: Sysroot, drive: Drive) -> None:
    """A figure over all of them is refused."""
    write(sysroot)
    with pytest.raises(RequestError, match="add --keys counter"):
        drive("net.snmp", "fs:proc:snmp", sysroot=str(sysroot)).__enter__()


def test_segments_that_were_sent_again_are_one_counter(sysroot: Sysroot, drive: Drive) -> None:
    """None is a zero, and a kernel that counts none is refused."""
    write(sysroot)
    with drive("net.tcp.retransmit", "fs:proc:snmp", sysroot=str(sysroot)) as driver:
        write(sysroot, retransmits=6)
        assert pick(driver.sample(), "segments") == [(5,)]
        assert pick(driver.sample(), "segments") == [(0,)]
    sysroot.write("/proc/net/snmp", "Ip: InReceives\nIp: 1\n")
    with pytest.raises(MachineRefused, match="counts no segments"):
        drive("net.tcp.retransmit", "fs:proc:snmp", sysroot=str(sysroot)).__enter__()


SOCKSTAT = """sockets: used 41
TCP: inuse 5 orphan 1 tw 7 alloc 9 mem 3
UDP: inuse 2 mem 1
RAW: inuse 0
FRAG: inuse 0 memory 512
"""


@pytest.mark.spec("NET-1", "EVT-5")
def test_sockets_are_told_apart_by_protocol(sysroot: Sysroot, drive: Drive) -> None:
    """Without the key all of them, Unix ones too; what a protocol does not count is absent. Memory is in pages."""
    assert parse_socket_counts(SOCKSTAT.encode())["TCP"] == {"inuse": 5, "orphan": 1, "tw": 7, "alloc": 9, "mem": 3}
    sysroot.write("/proc/net/sockstat", SOCKSTAT).write("/proc/net/sockstat6", "TCP6: inuse 4\n")
    page = os.sysconf("SC_PAGE_SIZE")
    with drive("net.socket", "fs:proc:sockstat", sysroot=str(sysroot)) as whole:
        assert pick(whole.sample(), "sockets", "protocol") == [(41, None)]
    with drive("net.socket", "fs:proc:sockstat", "protocol", sysroot=str(sysroot)) as divided:
        rows = divided.sample()
    assert pick(rows, "protocol", "sockets", "orphans", "time_wait", "allocated", "memory_bytes") == [
        ("TCP", 5, 1, 7, 9, 3 * page),
        ("UDP", 2, None, None, None, page),
        ("RAW", 0, None, None, None, None),
        ("FRAG", 0, None, None, None, 512),
        ("TCP6", 4, None, None, None, None),
    ]


def test_this_machine_counts_the_sockets_that_a_program_opens(drive: Drive) -> None:
    """Twenty UDP sockets more are twenty more."""
    with drive("net.socket", "fs:proc:sockstat", "protocol") as driver:
        before = {row["protocol"]: row["sockets"] for row in driver.sample()}
        opened = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(20)]
        for one in opened:
            one.bind(("127.0.0.1", 0))
        during = {row["protocol"]: row["sockets"] for row in driver.sample()}
        for one in opened:
            one.close()
    assert during["UDP"] >= before["UDP"] + 20
