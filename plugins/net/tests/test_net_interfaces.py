"""Which interfaces have rows: those that lead out, those that come, go and are renamed, and what sysfs says alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest
from networks import Pair, make_network, pair
from omn_kernel.interfaces import bind_iface
from omn_kernel.links import COUNTERS, Link
from omn_net.interfaces import explain_omission

from omn_core.api import EmitSpec, MachineRefused, ProbeContext, RequestError, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

__all__ = ["make_network", "pair"]

Drive = Callable[..., Driver]
INODE = 4026531840


def make(index: int, name: str, kind: str | None = None, **said: Any) -> Link:
    return Link(index, name, {"rx_bytes": 1}, kind, **said)


LOOPBACK = make(1, "lo", is_loopback=True)
CARD = make(2, "eth0", has_device=True)
BRIDGE = make(3, "br0", "bridge")
VLAN = make(4, "eth0.5", "vlan", lower=2)
CONTAINER = make(5, "veth1", "veth", lower=2, is_lower_elsewhere=True, master=3)
BOTH_ENDS = [make(6, "left", "veth", lower=7), make(7, "right", "veth", lower=6)]
TUNNEL = make(8, "wg0", "wireguard")
FUNCTION = make(9, "eth0f", master=2)
PORT = make(10, "eth1", master=3, has_device=True)


def list_kept(*links: Link) -> list[str]:
    known = {link.index: link for link in links}
    return [link.name for link in links if explain_omission(link, known) is None]


@pytest.mark.parametrize(
    ("links", "kept"),
    [
        ([LOOPBACK, CARD, BRIDGE, VLAN, CONTAINER, *BOTH_ENDS, TUNNEL], ["eth0"]),
        ([CARD, PORT, BRIDGE], ["eth0", "eth1"]),
        ([CARD, FUNCTION], ["eth0"]),
        ([LOOPBACK, CONTAINER, TUNNEL], ["veth1"]),
        ([LOOPBACK, *BOTH_ENDS], []),
    ],
)
def test_the_figure_is_of_what_leads_out(links: list[Link], kept: list[str]) -> None:
    """Hardware, once: a bridge's port counts and not the bridge, and in a container the pair that leads out of it."""
    assert list_kept(*links) == kept


def test_each_omission_has_its_reason() -> None:
    """What is left out says why."""
    links = {link.index: link for link in (LOOPBACK, CARD, TUNNEL, FUNCTION)}
    assert explain_omission(LOOPBACK, links) == "what it moves never leaves the machine"
    assert "made of software (wireguard)" in str(explain_omission(TUNNEL, links))
    assert explain_omission(FUNCTION, links) == "it is a part of eth0"


def lay_out(sysroot: Sysroot, interfaces: Mapping[str, Mapping[str, int]], counters: int = len(COUNTERS)) -> None:
    """Lay /sys/class/net out: for each interface its index, its type, and what of its counters is not zero."""
    listed = ["Inter-| Receive", " face |bytes"]
    for name, said in interfaces.items():
        folder = f"/sys/class/net/{name}"
        index = said["index"]
        files = {"ifindex": index, "iflink": said.get("lower", index), "type": 772 if name == "lo" else 1}
        for file, number in files.items():
            sysroot.write(f"{folder}/{file}", f"{number}\n")
        for counter in COUNTERS[:counters]:
            sysroot.write(f"{folder}/statistics/{counter}", f"{said.get(counter, 0)}\n")
        if name.startswith("eth"):
            sysroot.write(f"{folder}/device/uevent", "")
        listed.append(f"{name:>6}: {said.get('rx_bytes', 0)} 0")
    sysroot.write("/proc/net/dev", "\n".join([*listed, ""]))
    sysroot.link("/proc/self/ns/net", f"net:[{INODE}]")
    sysroot.write("/sys/class/net/bonding_masters", "\n")


@pytest.fixture
def drive(registry: Registry, catalog: Catalog, sysroot: Sysroot) -> Drive:
    """Make the driver of a source on the tree: of the machine, or of one interface."""

    def drive_one(source: str, *keys: str, iface: str | None = None, emit: EmitSpec | None = None) -> Driver:
        backend, root = "fs:sys:statistics", str(sysroot)
        target = bind_machine()
        if iface is not None:
            target = bind_iface(Target("iface", iface), ProbeContext("iface", sysroot=root))
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll", keys=keys)
        if emit is not None:
            resolved = attrs.evolve(resolved, emits=(emit,))
        return Driver(registry.load(registry.collectors[source, backend].factory)(), resolved, target, sysroot=root)

    return drive_one


def pick(rows: Sequence[Mapping[str, object]], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


@pytest.mark.spec("NET-1", "EVT-2")
def test_the_machine_is_the_interfaces_that_lead_out(sysroot: Sysroot, drive: Drive) -> None:
    """The loopback and a pair are left out of the figure, and said where they moved; by interface each has its row."""
    before = {"lo": {"index": 1}, "eth0": {"index": 2, "rx_bytes": 10}, "veth0": {"index": 3, "lower": 9}}
    lay_out(sysroot, before)
    with drive("net.bytes") as whole, drive("net.bytes", "iface") as divided:
        lay_out(
            sysroot,
            {
                "lo": {"index": 1, "rx_bytes": 5, "tx_bytes": 5},
                "eth0": {"index": 2, "rx_bytes": 110, "tx_bytes": 20},
                "veth0": {"index": 3, "lower": 9},
            },
        )
        assert pick(whole.sample(), "iface", "bytes", "rx_bytes", "tx_bytes") == [(f"{INODE}:2", 120, 100, 20)]
        rows = divided.sample()
        facts = whole.collector.facts()
    assert pick(rows, "iface", "name", "bytes") == [(f"{INODE}:2", "eth0", 120), (f"{INODE}:1", "lo", 10)]
    assert facts == (
        f"interfaces: {INODE}:2 is eth0",
        "lo is left out of the figure: what it moves never leaves the machine",
    )


def test_what_is_divided_by_an_emit_alone_says_what_overlaps(sysroot: Sysroot, drive: Drive) -> None:
    """Every interface is in the rows of `summary@name`, and so in any figure beside it; a key keeps them apart."""
    lay_out(sysroot, {"lo": {"index": 1}, "eth0": {"index": 2}})
    named = EmitSpec("summary", attribute="name")
    with drive("net.bytes", emit=named) as driver, drive("net.bytes", "iface", emit=named) as apart:
        lay_out(sysroot, {"lo": {"index": 1, "rx_bytes": 5}, "eth0": {"index": 2, "rx_bytes": 7}})
        assert pick(driver.sample(), "name", "bytes") == [("eth0", 7), ("lo", 5)]
        apart.sample()
        said = "lo is in the figures beside the others: what it moves never leaves the machine"
        assert said in driver.collector.facts()
        assert said not in apart.collector.facts()


def test_nothing_that_leads_out_is_a_zero(sysroot: Sysroot, drive: Drive) -> None:
    """In a namespace with a loopback alone nothing leaves: a measurement, and the loopback is named."""
    lay_out(sysroot, {"lo": {"index": 1, "rx_bytes": 5}})
    with drive("net.bytes") as driver:
        lay_out(sysroot, {"lo": {"index": 1, "rx_bytes": 9}})
        assert pick(driver.sample(), "bytes", "iface") == [(0, None)]
        assert driver.collector.facts() == ("lo is left out of the figure: what it moves never leaves the machine",)


def test_an_interface_keeps_its_counters_under_another_name(sysroot: Sysroot, drive: Drive) -> None:
    """A name that passes to another interface takes nothing along, and the one that is named is followed."""
    lay_out(sysroot, {"eth0": {"index": 2, "tx_packets": 10}, "eth1": {"index": 3, "tx_packets": 900}})
    with drive("net.packets", "iface") as driver, drive("net.packets", iface="eth0") as named:
        sysroot.path("/sys/class/net/eth0").rename(sysroot.path("/sys/class/net/other"))
        sysroot.path("/sys/class/net/eth1").rename(sysroot.path("/sys/class/net/eth0"))
        sysroot.path("/sys/class/net/other").rename(sysroot.path("/sys/class/net/eth1"))
        lay_out(sysroot, {"eth1": {"index": 2, "tx_packets": 13}, "eth0": {"index": 3, "tx_packets": 904}})
        rows = driver.sample()
        assert pick(rows, "iface", "name", "packets") == [(f"{INODE}:3", "eth0", 4), (f"{INODE}:2", "eth1", 3)]
        assert pick(named.sample(), "iface", "name", "packets") == [(f"{INODE}:2", "eth1", 3)]
        assert driver.collector.losses().is_empty
        assert "eth0 was renamed eth1 in the window" in driver.collector.facts()


def test_what_comes_and_goes_is_said_and_what_nobody_read_is_a_loss(sysroot: Sysroot, drive: Drive) -> None:
    """One that comes may have been moved here with its counters: no growth. One that went took its last interval."""
    lay_out(sysroot, {"eth0": {"index": 2, "rx_packets": 10}})
    with drive("net.packets", "iface") as driver:
        lay_out(sysroot, {"eth0": {"index": 2, "rx_packets": 11}, "eth1": {"index": 3, "rx_packets": 500}})
        assert pick(driver.sample(), "name", "packets") == [("eth0", 1)]
        lay_out(sysroot, {"eth0": {"index": 2, "rx_packets": 11}, "eth1": {"index": 3, "rx_packets": 507}})
        assert pick(driver.sample(), "name", "packets") == [("eth0", 0), ("eth1", 7)]
        sysroot.remove("/sys/class/net/eth0")
        assert pick(driver.sample(), "name", "packets") == [("eth1", 0)]
        losses, facts = driver.collector.losses(), driver.collector.facts()
    assert losses.reasons == (
        "eth1 came, and what it did before its first reading is in no row",
        "eth0 went away, and what it did since its last reading is in no row",
    )
    assert "eth1 came in the window, and counts from its first reading" in facts
    assert "eth0 went away in the window" in facts


@pytest.mark.spec("RUN-7")
def test_a_named_interface_that_goes_is_the_end(sysroot: Sysroot, drive: Drive) -> None:
    """Before it is attached a refusal, afterwards the end of the request."""
    lay_out(sysroot, {"eth0": {"index": 2}, "lo": {"index": 1}})
    with drive("net.bytes", iface="eth0") as driver:
        assert pick(driver.sample(), "bytes") == [(0,)]
        sysroot.remove("/sys/class/net/eth0")
        with pytest.raises(TargetGone):
            driver.sample()
    lay_out(sysroot, {"eth0": {"index": 2}, "lo": {"index": 1}})
    gone = drive("net.bytes", iface="eth0")
    sysroot.remove("/sys/class/net/eth0")
    lay_out(sysroot, {"lo": {"index": 1}})
    with pytest.raises(MachineRefused, match="ended before it could be read"):
        gone.__enter__()


@pytest.mark.spec("EVT-5")
def test_a_counter_that_starts_over_is_no_growth(sysroot: Sysroot, drive: Drive) -> None:
    """A driver that was reset leaves the interval unknown, and the next one is exact again."""
    lay_out(sysroot, {"eth0": {"index": 2, "rx_bytes": 1 << 40}})
    with drive("net.bytes", "iface") as driver:
        lay_out(sysroot, {"eth0": {"index": 2, "rx_bytes": 7}})
        assert driver.sample() == []
        lay_out(sysroot, {"eth0": {"index": 2, "rx_bytes": 9}})
        assert pick(driver.sample(), "bytes") == [(2,)]
        assert f"rx_bytes of {INODE}:2 stepped back" in driver.collector.losses().reasons[0]


def test_each_kind_of_failure_is_a_row_of_its_own(sysroot: Sysroot, drive: Drive) -> None:
    """Of the machine the kinds that ever happened; of a named interface every kind that this kernel counts."""
    lay_out(sysroot, {"eth0": {"index": 2, "rx_errors": 5, "rx_crc_errors": 5}, "lo": {"index": 1}}, counters=24)
    with drive("net.iface", "iface", "counter") as driver, drive("net.iface", "counter", iface="eth0") as named:
        lay_out(sysroot, {"eth0": {"index": 2, "rx_errors": 8, "rx_crc_errors": 7}, "lo": {"index": 1}}, counters=24)
        assert pick(driver.sample(), "name", "counter", "failures") == [
            ("eth0", "rx_errors", 3),
            ("eth0", "rx_crc_errors", 2),
        ]
        every = [row["counter"] for row in named.sample()]
    assert every == [name for name in COUNTERS[4:24] if name not in ("multicast", "rx_compressed", "tx_compressed")]


def test_kinds_have_no_sum(sysroot: Sysroot, drive: Drive) -> None:
    """A figure over all of them is refused before anything is read."""
    lay_out(sysroot, {"eth0": {"index": 2}})
    with pytest.raises(RequestError, match="their sum counts nothing; add --keys counter"):
        drive("net.iface", "iface").__enter__()


def test_the_sysfs_of_another_namespace_is_refused(sysroot: Sysroot, drive: Drive) -> None:
    """Its counters would be other interfaces' of the same names."""
    lay_out(sysroot, {"eth0": {"index": 2}})
    sysroot.write("/proc/net/dev", "a\nb\n  lo: 0 0\neth0: 0 0\n")
    with pytest.raises(MachineRefused, match="shows the interfaces of another network namespace"):
        drive("net.bytes").__enter__()


def test_sysfs_does_not_serve_an_interface_of_another_namespace(
    pair: Pair, registry: Registry, catalog: Catalog
) -> None:
    """It is refused, and rtnetlink serves it."""
    target = bind_iface(Target("iface", f"{pair.there.name}/there0"), ProbeContext("iface"))
    resolved = resolve_onto(catalog.entries["net.bytes"], "fs:sys:statistics", target.target, mode="poll")
    factory = registry.load(registry.collectors["net.bytes", "fs:sys:statistics"].factory)
    with pytest.raises(MachineRefused, match="no other network namespace"):
        Driver(factory(), resolved, target).__enter__()


def test_both_backends_read_the_same_counters(registry: Registry, catalog: Catalog) -> None:
    """Of the loopback, with as much sent between the readings of each: what netlink says, sysfs says."""
    import socket

    entry = catalog.entries["net.packets"]
    target = bind_iface(Target("iface", "lo"), ProbeContext("iface"))
    factory = registry.load(registry.collectors["net.packets", "nl:route:link"].factory)
    outer = Driver(factory(), resolve_onto(entry, "nl:route:link", target.target, mode="poll"), target)
    inner = Driver(factory(), resolve_onto(entry, "fs:sys:statistics", target.target, mode="poll"), target)
    with outer, inner, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taker:
        taker.bind(("127.0.0.1", 0))
        for _ in range(50):
            taker.sendto(b"x", taker.getsockname())
        (within,) = inner.sample()
        (around,) = outer.sample()
    assert 100 <= within["packets"] <= around["packets"]
