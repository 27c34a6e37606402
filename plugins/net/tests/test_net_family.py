"""The family as omn sees it: the conformance kit, its chains, runs and refusals from the command line."""

from __future__ import annotations

import pytest
from another_user import run_as_another_user
from networks import Pair, make_network, pair

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command

__all__ = ["make_network", "pair"]


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
@pytest.mark.parametrize("distribution", ["omn-net", "omn-kernel"])
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog, distribution: str) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution(distribution, registry, catalog).broken == ()


@pytest.mark.spec("CAT-1", "NET-1")
def test_what_nobody_collects_says_why(catalog: Catalog, registry: Registry) -> None:
    """Each backend has a collector or a reason."""
    for entry in catalog.entries.values():
        if entry.family == "net":
            for backend in entry.chain:
                assert ((entry.id, backend.id) in registry.collectors) is (backend.uncollected is None), entry.id


@pytest.mark.spec("REQ-14", "REQ-6")
def test_an_interface_is_measured_beside_a_program_from_the_command_line(pair: Pair, omn: Command) -> None:
    """The program sends twenty datagrams from inside; the figure is the interface's, and says which one it is."""
    send = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        "[s.sendto(bytes(58), ('10.9.0.2', 4009)) for _ in range(20)]"
    )
    program = ("ip", "netns", "exec", pair.here.name, "python3", "-c", send)
    asked = ("-m", "count", "-e", "count", "--keys", "iface,dir", "--iface", f"{pair.here.name}/here0")
    ran = omn("net.bytes", *asked, "--format", "json", "--", *program)
    assert ran.code == 0, ran.stderr
    key = f"{pair.here.inode}:{Pair.index}"
    found = {series["key"]["dir"]: series["emits"]["count"]["value"] for series in ran.result["series"]}
    assert found == {"rx": 0, "tx": 20 * 100}
    assert {series["key"]["iface"] for series in ran.result["series"]} == {key}
    assert [series["labels"] for series in ran.result["series"]] == [{"iface": "here0"}] * 2
    assert (ran.result["scope"], ran.result["backend"]) == ("interface", "nl:route:link")
    assert f"interfaces: {key} is here0" in ran.result["facts"]
    assert ran.result["losses"]["failed_reads"] == 0


@pytest.mark.spec("REQ-14")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("net.bytes", "-m", "count", "-e", "count", "--", "true"), 2, "ask for --system -- PROGRAM"),
        (("net.errors", "-m", "count", "-e", "count", "--pid", "1", "-d", "1s"), 2, "name one with --iface"),
        (("net.packets", "-m", "count", "-e", "count", "--iface", "omn9", "-d", "1s"), 1, "no interface 'omn9' here"),
        (("net.iface", "-m", "count", "-e", "count", "--iface", "lo", "-d", "1s"), 2, "add --keys counter"),
        (("net.snmp", "-m", "count", "-e", "topk@counter", "-e", "count", "--system", "-d1s"), 2, "add --keys counter"),
        (("net.bytes", "-m", "count", "-e", "count", "--dev", "vda", "-d", "1s"), 2, "ask io.bytes"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_sentence(
    omn: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """Each is told whose gap it is and what would serve."""
    ran = omn(*arguments)
    assert ran.code == code
    assert sentence in " ".join(ran.stderr.split())


def test_interfaces_take_no_privilege() -> None:
    """An ordinary user reads every interface of his namespace, by both backends."""
    printed = run_as_another_user(
        """
        from omn_core.api import Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.testing.harness import Driver, bind_machine, resolve_onto
        registry = discover()
        catalog = load_catalog(registry)
        pairs = [(source, backend) for source, backend in registry.collectors if source in ("net.bytes", "net.errors")]
        factories = {pair: registry.load(registry.collectors[pair].factory) for pair in pairs}
        """,
        """
        for (source, backend), factory in factories.items():
            resolved = resolve_onto(catalog.entries[source], backend, Target("system"), mode="poll", keys=["iface"])
            with Driver(factory(), resolved, bind_machine()) as driver:
                driver.sample()
                print(source, backend, driver.collector.losses().is_empty)
        """,
    )
    assert printed.splitlines() == [
        "net.bytes nl:route:link True",
        "net.bytes fs:sys:statistics True",
        "net.errors nl:route:link True",
        "net.errors fs:sys:statistics True",
    ]


@pytest.mark.spec("REQ-16")
def test_bytes_are_ranked_beside_no_packets(catalog: Catalog) -> None:
    """The octets of any traffic outnumber everything else that protocols count."""
    asked = [request for band in catalog.defaults["net"].bands.values() for request in band]
    assert {request.filter for request in asked if request.source == "net.snmp"} == {'not counter =~ "Octets$"'}


@pytest.mark.spec("REQ-16", "RUN-15")
def test_low_asks_nothing_that_costs_by_the_socket(catalog: Catalog) -> None:
    """A server with fifty thousand connections pays for the cheapest band what an idle machine pays."""
    bands = catalog.defaults["net"].bands
    asked = {request.source for request in bands["low"]}
    assert {"net.bytes", "net.errors", "net.snmp", "net.socket"} <= asked
    assert asked.isdisjoint({"net.tcp.state", "net.tcp.rtt", "net.udp"})
    assert "net.tcp.rtt" in {request.source for request in bands["med"]}


def test_what_serves_a_socket_of_this_kind_is_said(omn: Command) -> None:
    """A process's sockets are asked through its descriptors, the machine's without them."""
    ran = omn("net.tcp.state", "-m", "snapshot", "-e", "summary", "--format", "json", "--system")
    assert (ran.code, ran.result["backend"]) == (0, "nl:sock_diag")
    ran = omn("net.tcp.state", "-m", "poll", "-e", "summary", "--format", "json", "--", "sleep", "0.1")
    assert (ran.code, ran.result["backend"]) == (0, "nl:sock_diag:fd"), ran.stderr
    assert ran.result["series"][0]["emits"]["summary"]["last"] == 0
