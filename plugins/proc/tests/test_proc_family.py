"""The family as omn sees it: the conformance kit, its catalog, forks of the machine, runs from the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from omn_kernel.procfs.machine import find_stat_counter
from omn_proc.forks import Forks

from omn_core.api import MachineRefused, Target
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
@pytest.mark.parametrize("distribution", ["omn-proc", "omn-kernel"])
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog, distribution: str) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution(distribution, registry, catalog).broken == ()


@pytest.mark.spec("PRC-1", "CAT-1")
def test_every_source_is_collected_somewhere(registry: Registry, catalog: Catalog) -> None:
    """None is declared alone."""
    entries = {name: entry for name, entry in catalog.entries.items() if entry.family == "proc"}
    collected = {"tasks", "threads", "fd", "limits", "cgroup", "fork", "exec", "exit", "syscall", "signals", "calls"}
    assert {name.partition(".")[2] for name in entries} == collected
    assert {name.partition(".")[2] for name, _ in registry.collectors if name in entries} == collected


@pytest.mark.spec("CAT-8", "EMT-1")
def test_only_counts_of_one_instant_and_counters_add_up(catalog: Catalog) -> None:
    """Shares never do; threads and descriptors do over the parts of one instant, and not over time."""
    entries = [entry for entry in catalog.entries.values() if entry.family == "proc"]
    assert {entry.id for entry in entries if entry.adds_up("snapshot")} == {"proc.threads", "proc.fd"}
    assert {entry.id for entry in entries if entry.adds_up("poll")} == {"proc.fork"}
    counts = {"proc.fork", "proc.exec", "proc.exit", "proc.syscall", "proc.signals"}
    assert {entry.id for entry in entries if entry.adds_up("count")} == counts


@pytest.mark.spec("CAT-11")
def test_one_quantity_has_one_name(catalog: Catalog) -> None:
    """What several sources of the family and of others say of a process is named and measured alike."""
    tasks, threads = catalog.entries["proc.tasks"], catalog.entries["proc.threads"]
    assert tasks.attributes["threads"] == threads.attributes["threads"] == "count"
    assert (tasks.attributes["oncpu_ns"], tasks.attributes["rss_bytes"]) == ("ns", "bytes")
    for entry in catalog.entries.values():
        if entry.family == "proc":
            assert {name: entry.attributes[name] for name in ("pid", "ppid", "comm")} == {
                "pid": "id",
                "ppid": "id",
                "comm": "text",
            }, entry.id


def read_forks() -> int:
    made = find_stat_counter(Path("/proc/stat").read_bytes(), "processes")
    assert made is not None
    return made


def drive_forks(catalog: Catalog, sysroot: str = "/", mode: str = "count") -> Driver:
    resolved = resolve_onto(catalog.entries["proc.fork"], "fs:proc:stat", Target("system"), mode=mode)
    return Driver(Forks(), resolved, bind_machine(), sysroot=sysroot)


@pytest.mark.spec("PRC-1", "RUN-10")
def test_forks_are_those_that_the_kernel_counted_between_the_readings(catalog: Catalog) -> None:
    """A hundred forks are a hundred and what else was made meanwhile, as readings by hand on either side bound it."""
    outer = read_forks()
    with drive_forks(catalog) as driver:
        inner = read_forks()
        for _ in range(100):
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        inner = read_forks() - inner
        (row,) = driver.sample()
        outer = read_forks() - outer
        assert driver.collector.losses().is_empty
    assert 100 <= inner <= row["forks"] <= outer


@pytest.mark.spec("RUN-10", "EVT-5")
def test_forks_are_exactly_what_the_counter_grew_by(catalog: Catalog, sysroot: Sysroot) -> None:
    """The opening is a baseline; none is a zero; a step back gives no row and names the counter; wide numbers hold."""
    head = "cpu 1 2 3 4\nintr 5 6\nctxt 7\nbtime 8\n"
    sysroot.write("/proc/stat", f"{head}processes 18446744073709551000\nprocs_running 1\n")
    with drive_forks(catalog, str(sysroot), "poll") as driver:
        sysroot.write("/proc/stat", f"{head}processes 18446744073709551100\n")
        assert [row["forks"] for row in driver.sample()] == [100]
        assert [row["forks"] for row in driver.sample()] == [0]
        sysroot.write("/proc/stat", f"{head}processes 5\n")
        assert driver.sample() == []
        sysroot.write("/proc/stat", head)
        assert driver.sample() == []
        losses = driver.collector.losses()
    assert losses.failed_reads == 2
    assert "processes of the machine stepped back" in losses.reasons[0]
    assert "without its processes line" in losses.reasons[1]


def test_a_kernel_that_counts_no_forks_is_refused(catalog: Catalog, sysroot: Sysroot) -> None:
    """No line is not a count of zero."""
    sysroot.write("/proc/stat", "cpu 1 2 3 4\n")
    with pytest.raises(MachineRefused, match="no processes line"):
        drive_forks(catalog, str(sysroot)).__enter__()


FORK_FIFTY = """
import os
for _ in range(50):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.spec("PRC-1")
def test_a_program_that_forks_is_counted_from_the_command_line(omn: Command) -> None:
    """Fifty forks lie in the window of the program that makes them; what else the machine made is in it too."""
    before = read_forks()
    ran = omn(
        "proc.fork",
        "-m",
        "count",
        "-e",
        "count",
        "--system",
        "--backend",
        "force:fs:proc:stat",
        "--format",
        "json",
        "--",
        sys.executable,
        "-c",
        FORK_FIFTY,
    )
    assert ran.code == 0, ran.stderr
    assert 50 <= ran.result["series"][0]["emits"]["count"]["value"] <= read_forks() - before
    assert any("which task made another" in text for text in ran.result["degraded"])
