"""The family as omn sees it: the conformance kit, its chains, what needs no privilege, and refusals."""

from __future__ import annotations

import pytest
from another_user import run_as_another_user

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution("omn-power", registry, catalog).broken == ()


@pytest.mark.spec("CAT-1", "PWR-1")
def test_what_files_answer_is_declared_and_collected(catalog: Catalog, registry: Registry) -> None:
    """By every backend of its chain."""
    names = "energy process_energy freq cstate throttle temp battery"
    assert {f"power.{name}" for name in names.split()} <= catalog.entries.keys()
    for entry in catalog.entries.values():
        if entry.family == "power":
            assert all((entry.id, backend.id) in registry.collectors for backend in entry.chain)
            assert not any(backend.uncollected for backend in entry.chain)


@pytest.mark.spec("SRC-7")
def test_the_clock_is_first_asked_of_the_processor(catalog: Catalog) -> None:
    """APERF and MPERF stand before every file of sysfs."""
    chain = [backend.id for backend in catalog.entries["power.freq"].chain]
    assert chain[0] == "pmu:msr"
    assert [one for one in chain if one.startswith("fs:")] == [
        "fs:sys:cpuinfo_avg_freq",
        "fs:sys:scaling_cur_freq",
        "fs:proc:cpuinfo",
    ]


@pytest.mark.spec("CAT-12")
def test_what_was_met_as_a_tree_alone_says_so(catalog: Catalog) -> None:
    """Every backend but those that any x86 machine with idle states has, and those of the guests of the tests."""
    entries = [entry for entry in catalog.entries.values() if entry.family == "power"]
    seen = {(entry.id, one.id) for entry in entries for one in entry.chain if not one.uncollected and not one.unseen}
    states = {("power.cstate", backend) for backend in ("fs:sys:cpuidle", "bpf:raw_tp", "bpf:tp")}
    changes = {(source, one) for source in ("power.freq", "power.throttle") for one in ("bpf:raw_tp", "bpf:tp")}
    assert seen == states | changes | {("power.freq", "fs:proc:cpuinfo"), ("power.freq", "fs:sys:scaling_cur_freq")}


@pytest.mark.spec("REQ-12")
def test_the_familys_name_alone_asks_the_machine(catalog: Catalog) -> None:
    """Every band asks what serves --system and nothing that estimates a process."""
    bands = catalog.defaults["power"].bands
    assert list(bands) == ["low", "med"]
    for requests in bands.values():
        sources = [request.source for request in requests]
        assert "power.process_energy" not in sources
        assert all(catalog.entries[source].targets["system"] is None for source in sources)


@pytest.mark.spec("CAT-8")
def test_levels_do_not_add_up(catalog: Catalog) -> None:
    """Shares, clocks, degrees and watts have no total over time; energy and events have."""
    adding = {entry.id for entry in catalog.entries.values() if entry.family == "power" and entry.adds_up("poll")}
    assert adding == {"power.energy", "power.process_energy", "power.throttle"}


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("power.freq", "--", "true"), 2, "a clock is a cpu's"),
        (("power.cstate", "--pid", "1", "-d", "1s"), 2, "idle is what a cpu is between programs"),
        (("power.cstate", "--cpu", "4095", "-d", "1s"), 1, "this machine has no cpu 4095"),
        (("power.temp", "--", "true"), 2, "a sensor is the machine's; ask --system"),
        (("power.throttle", "-m", "count", "-e", "count", "--pid", "1", "-d", "1s"), 2, "heat slows cpus"),
        (("power.battery", "--", "true"), 2, "a battery powers the machine"),
        (
            ("power.process_energy", "-m", "count", "-e", "count", "--system", "-d", "1s"),
            2,
            "the machine's is metered; ask power.energy",
        ),
        (("power.freq", "-m", "trace", "--pid", "1", "-d", "1s"), 2, "a clock is a cpu's"),
        (
            ("power.throttle", "-m", "count", "-e", "count", "--backend", "force:bpf:raw_tp", "--cpu", "0", "-d", "1s"),
            2,
            "it serves system, not cpu",
        ),
        (
            ("power.freq", "--backend", "force:pmu:msr", "--system", "-d", "1s"),
            1,
            "this machine cannot serve power.freq in mode poll through the pinned backend",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_sentence(
    omn: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """Each is told whose gap it is and what would serve."""
    ran = omn(*arguments)
    assert ran.code == code
    assert sentence in ran.stderr


def test_clocks_and_idle_states_take_no_privilege() -> None:
    """An ordinary user reads what root reads, where this machine has it."""
    printed = run_as_another_user(
        """
        from omn_core.api import Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.resolve.probes import ProbeTable
        from omn_core.testing.harness import Driver, bind_machine, resolve_onto
        registry = discover()
        catalog = load_catalog(registry)
        probes = ProbeTable(registry)
        names = [("power.freq", "fs:proc:cpuinfo"), ("power.cstate", "fs:sys:cpuidle")]
        factories = {pair: registry.load(registry.collectors[pair].factory) for pair in names}
        # What a probe imports when it is first asked is read as oneself too.
        for name, backend in names:
            for need in catalog.entries[name].backend(backend).requires:
                ProbeTable(registry).ask(need, "system")
        """,
        """
        for (name, backend), factory in factories.items():
            entry = catalog.entries[name]
            states = {probes.ask(need, "system").state.value for need in entry.backend(backend).requires}
            if states == {"missing"}:
                print(name, True)
                continue
            with Driver(factory(), resolve_onto(entry, backend, Target("system")), bind_machine()) as driver:
                print(name, states == {"available"} and all(entry.value in row for row in driver.sample()))
        """,
    )
    assert printed.splitlines() == ["power.freq True", "power.cstate True"]
