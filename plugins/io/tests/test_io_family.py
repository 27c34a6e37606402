"""The family as omn sees it: the conformance kit, its chains, pressure, and refusals from the command line."""

from __future__ import annotations

import pytest
from another_user import run_as_another_user
from omn_io.pressure import IoPressure
from omn_kernel.cgroup import CgroupPlace

from omn_core.api import BoundTarget, MachineRefused, Target
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution
from omn_core.testing.fixtures import Command
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

PRESSURE = "some avg10=2.50 avg60=1.00 avg300=0.00 total={0}\nfull avg10=1.00 avg60=0.00 avg300=0.00 total={1}\n"


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
def test_the_family_keeps_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """The conformance kit finds no broken line."""
    assert check_distribution("omn-io", registry, catalog).broken == ()


@pytest.mark.spec("CAT-1", "IO-1")
def test_what_files_answer_is_declared_and_collected(catalog: Catalog, registry: Registry) -> None:
    """Each source has a collector; what nobody collects yet says why."""
    names = "bytes iops merges util inflight pressure process"
    assert {f"io.{name}" for name in names.split()} <= catalog.entries.keys()
    for entry in catalog.entries.values():
        if entry.family == "io":
            collected = [backend.id for backend in entry.chain if (entry.id, backend.id) in registry.collectors]
            assert collected
            assert all(b.uncollected for b in entry.chain if b.id not in collected)


@pytest.mark.spec("CAT-8", "EVT-4")
def test_only_counts_add_up(catalog: Catalog) -> None:
    """Shares and requests in flight have no total over time, whatever is asked of them."""
    adding = {entry.id for entry in catalog.entries.values() if entry.family == "io" and entry.adds_up("poll")}
    assert adding == {"io.bytes", "io.iops", "io.merges", "io.process"}


@pytest.mark.spec("CAT-11")
def test_one_counter_has_one_name(catalog: Catalog) -> None:
    """No two sources read one column of a device under two names, nor two columns under one."""
    names = ["bytes", "iops", "merges", "util", "inflight"]
    seen = [name for source in names for name in catalog.entries[f"io.{source}"].attributes]
    shared = {name for name in seen if seen.count(name) > 1}
    assert shared == {"pid", "ppid", "comm"}


@pytest.mark.spec("SRC-1")
def test_pressure_is_named_alike_wherever_it_is_kept(catalog: Catalog) -> None:
    """The attributes of io.pressure are those of every family that has pressure."""
    ours = dict(catalog.entries["io.pressure"].attributes)
    others = [dict(entry.attributes) for name, entry in catalog.entries.items() if name.endswith(".pressure")]
    assert all(other == ours for other in others)
    assert ours["stall_ratio"] == "ratio"


def test_pressure_of_the_machine_has_both_lines(sysroot: Sysroot, catalog: Catalog) -> None:
    """A task that waits for a device keeps no other from a cpu: `full` means something of the machine too."""
    sysroot.write("/proc/pressure/io", PRESSURE.format(1000, 500))
    resolved = resolve_onto(catalog.entries["io.pressure"], "fs:proc:pressure", Target("system"))
    with Driver(IoPressure(), resolved, bind_machine(), sysroot=str(sysroot)) as driver:
        sysroot.write("/proc/pressure/io", PRESSURE.format(1004, 502))
        (row,) = driver.sample()
    assert (row["some_ns"], row["full_ns"], row["some_avg10"]) == (4000, 2000, 0.025)
    assert row["stall_ratio"] == pytest.approx(min(4000 / row["interval_ns"], 1.0))


def test_pressure_of_a_cgroup_is_its_own_file(sysroot: Sysroot, catalog: Catalog) -> None:
    """io.pressure of cgroup2; a cgroup without one is refused by the file that is missing."""
    place = CgroupPlace("/app", unified=str(sysroot.path("cgroup/app")))
    target = BoundTarget(Target("cgroup", "/app"), "cgroup", place=place)
    resolved = resolve_onto(catalog.entries["io.pressure"], "fs:cgroup2:pressure", target.target)
    with pytest.raises(MachineRefused, match=r"has no io\.pressure"):
        Driver(IoPressure(), resolved, target).__enter__()
    sysroot.write("cgroup/app/io.pressure", PRESSURE.format(1000, 500))
    with Driver(IoPressure(), resolved, target) as driver:
        sysroot.write("cgroup/app/io.pressure", PRESSURE.format(1004, 500))
        (row,) = driver.sample()
    assert (row["some_ns"], row["full_ns"], row["cgroup"]) == (4000, 0, "/app")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("io.bytes", "-m", "count", "-e", "count", "--dev", "omn0", "-d", "1s"), 1, "there is no block device 'omn0'"),
        (("io.util", "--dev", "/dev/null", "-d", "1s"), 1, "'/dev/null' is no block device: it is a character device"),
        (("io.util", "--", "true"), 2, "a program keeps no device busy alone; name it with --dev"),
        (("io.process", "-m", "count", "-e", "count", "--system", "-d", "1s"), 2, "ask io.bytes"),
        (("io.merges", "-m", "count", "-e", "count", "--keys", "task", "--system", "-d", "1s"), 2, "task"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_sentence(
    omn: Command, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """Each is told whose gap it is and what would serve."""
    ran = omn(*arguments)
    assert ran.code == code
    assert sentence in ran.stderr


def test_devices_and_pressure_take_no_privilege() -> None:
    """An ordinary user reads every device of the machine, by both accounts, and its pressure where that is kept."""
    printed = run_as_another_user(
        """
        from omn_core.api import Target
        from omn_core.catalog.load import load_catalog
        from omn_core.plugins import discover
        from omn_core.testing.harness import Driver, bind_machine, resolve_onto
        registry = discover()
        catalog = load_catalog(registry)
        names = ["io.bytes", "io.iops", "io.merges", "io.util", "io.inflight"]
        factories = {name: registry.load(registry.collectors[name, "fs:proc:diskstats"].factory) for name in names}
        """,
        """
        for name, factory in factories.items():
            entry = catalog.entries[name]
            resolved = resolve_onto(entry, "fs:proc:diskstats", Target("system"), mode="poll", keys=["dev"])
            with Driver(factory(), resolved, bind_machine()) as driver:
                rows = driver.sample()
                print(name, driver.collector.losses().is_empty, all(entry.value in row for row in rows))
        """,
    )
    names = ["io.bytes", "io.iops", "io.merges", "io.util", "io.inflight"]
    assert printed.splitlines() == [f"{name} True True" for name in names]
