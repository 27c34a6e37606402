"""The family as omn sees it: the conformance kit, the load average, the probe, and runs from the command line."""

from __future__ import annotations

import sys

import pytest
from omn_cpu.load import Load

from omn_core.api import Target
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import spin


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution("omn-cpu", registry, catalog).broken == ()


@pytest.mark.spec("CAT-11")
def test_one_counter_has_one_name(catalog: Catalog) -> None:
    """cpu.util and cpu.steal read one column of /proc/stat, cpu.util and cpu.oncpu_time one clock: named alike."""
    util, steal = catalog.entries["cpu.util"], catalog.entries["cpu.steal"]
    assert util.attributes["steal"] == steal.attributes["steal"] == "ratio"
    assert util.attributes["oncpu_ns"] == catalog.entries["cpu.oncpu_time"].attributes["oncpu_ns"] == "ns"


@pytest.mark.spec("CAT-8")
def test_only_counts_and_times_add_up(catalog: Catalog) -> None:
    """A share and an average have no total, whatever is asked of them."""
    adding = {entry.id for entry in catalog.entries.values() if entry.family == "cpu" and entry.adds_up("poll")}
    events = {f"cpu.{name}" for name in ("cycles", "instructions", "branches", "branch_misses")}
    events |= {"cpu.cache_refs", "cpu.cache_misses"}
    assert adding == {"cpu.throttled", "cpu.steal", "cpu.oncpu_time", *events}


def test_the_load_is_read_as_it_stands(catalog: Catalog, sysroot: Sysroot) -> None:
    """Averages and the tasks of the instant, at every reading and at the opening too: nothing is an interval."""
    sysroot.write("proc/loadavg", "0.75 0.50 12.25 3/456 7890\n")
    resolved = resolve_onto(catalog.entries["cpu.load"], "fs:proc:loadavg", Target("system"))
    with Driver(Load(), resolved, bind_machine(), sysroot=str(sysroot)) as driver:
        (row,) = driver.sample()
    del row["ts_ns"]
    assert row == {"load1": 0.75, "load5": 0.5, "load15": 12.25, "runnable": 3, "entities": 456}
    assert Load.reads_at_open


@pytest.mark.spec("RUN-15", "RUN-10")
def test_a_launched_spinner_reads_as_one_cpu(omn: Command) -> None:
    """From the command line: what a program ran over how long it took is what the document says of it."""
    argv = [sys.executable, "-c", spin(700_000_000).source]
    ran = omn("cpu.util", "--interval", "200ms", "-e", "summary", "-e", "raw", "--format", "json", "--", *argv)
    assert ran.code == 0, ran.stderr
    result = ran.result
    assert result["backend"] == "clock:process"
    spent = sum(event["attrs"]["oncpu_ns"] for event in result["raw"])
    watched = sum(event["attrs"]["interval_ns"] for event in result["raw"])
    assert spent >= 700_000_000
    assert spent / watched == pytest.approx(spent / ran.document["program"]["lifetime_ns"], rel=0.1)
    assert all(0 <= event["attrs"]["util"] <= 1.05 for event in result["raw"])
    assert result["losses"]["failed_reads"] == 0


def test_the_time_of_a_launched_program_is_its_own(omn: Command) -> None:
    """cpu.oncpu_time counts what the run itself says the program used, its children apart."""
    argv = [sys.executable, "-c", spin(300_000_000).source]
    ran = omn("cpu.oncpu_time", "-m", "count", "-e", "count", "--format", "json", "--", *argv)
    assert ran.code == 0, ran.stderr
    value = ran.result["series"][0]["emits"]["count"]["value"]
    assert value >= 300_000_000
    assert value == pytest.approx(ran.document["program"]["cpu_ns"], rel=0.05)


@pytest.mark.spec("EMT-1")
def test_levels_of_several_cpus_in_one_series_are_said_to_be_mixed(omn: Command) -> None:
    """Shares of two cpus neither merge nor add up; divided by a key, each series is of one and nothing is said."""
    how = ("--cpu", "0,1", "--interval", "20ms", "-d", "60ms", "--format", "json")
    mixed = omn("cpu.util", *how).result
    assert (
        "one series holds the readings of 2 at a time, mixed and not added up: --keys cpu divides them"
        in (mixed["facts"])
    )
    divided = omn("cpu.util", "--keys", "cpu", *how).result
    assert len(divided["series"]) == 2
    assert not any("mixed" in fact for fact in divided["facts"])
