"""Clocks, idle states and energy by counters of performance units: trees as the kernel lays them out, and arithmetic.

No machine at hand has these counters; the opener and its times are held to the timestamp counter in the kernel's tests.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from omn_kernel.perf.counters import CounterCollector, Row
from omn_kernel.perf.reading import Counted
from omn_kernel.polling import Rows
from omn_kernel.probes.tracepoints import DEVICES
from omn_power.core_states import CoreStates, compute_residence
from omn_power.counted_clocks import CountedClocks, compute_clock
from omn_power.counted_energy import CountedEnergy

from omn_core.api import BoundTarget, MachineRefused
from omn_core.model.batch import Names
from omn_core.model.catalog import Catalog
from omn_core.model.collector import RunContext
from omn_core.testing.harness import bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

SECOND = 1_000_000_000
TSC_HZ = 2_600_000_000


def write_unit(sysroot: Sysroot, unit: str, events: Mapping[str, int], cpumask: str | None = None) -> None:
    """Lay a unit out; each event by its number."""
    folder = f"{DEVICES}/{unit}"
    sysroot.write(f"{folder}/type", "14\n")
    sysroot.write(f"{folder}/format/event", "config:0-63\n")
    for name, number in events.items():
        sysroot.write(f"{folder}/events/{name}", f"event={number:#04x}\n")
    if cpumask is not None:
        sysroot.write(f"{folder}/cpumask", f"{cpumask}\n")


def count(value: int | None, enabled_ns: int = SECOND) -> Counted:
    return Counted(value, value or 0, enabled_ns, 0 if value is None else enabled_ns)


def make(
    collector: CounterCollector,
    catalog: Catalog,
    sysroot: Sysroot,
    source: str,
    backend: str,
    counted: Mapping[int, Mapping[str, Counted]],
    *keys: str,
    cpus: tuple[int, ...] = (),
) -> tuple[Rows, list[int], BoundTarget]:
    """Make the rows of some cpus' counts, of a collector that was prepared on the tree and opened nothing."""
    target = bind_machine(*cpus)
    resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll", keys=keys)
    collector.prepare(resolved, RunContext(Names(), time.monotonic_ns, str(sysroot)))
    collector.find_events()
    opened = list(collector.find_cpus(target))
    rows = [Row({"cpu": cpu}, None, counts) for cpu, counts in counted.items()]
    return collector.make_rows(rows, SECOND), opened, target


@pytest.mark.spec("SRC-7", "PWR-1")
def test_a_cpus_clock_is_what_it_ran_at(catalog: Catalog, sysroot: Sysroot) -> None:
    """1.5 of the reference clock while it ran a tenth of the time; one that never ran has no figure, and no zero."""
    write_unit(sysroot, "msr", {"tsc": 0, "aperf": 1, "mperf": 2})
    ran = TSC_HZ // 10
    counted = {
        0: {"aperf": count(ran * 3 // 2), "mperf": count(ran), "tsc": count(TSC_HZ)},
        1: {"aperf": count(0), "mperf": count(0), "tsc": count(TSC_HZ)},
        2: {"aperf": count(TSC_HZ // 2), "mperf": count(TSC_HZ), "tsc": count(2 * TSC_HZ, 2 * SECOND)},
    }
    rows, opened, _ = make(CountedClocks(), catalog, sysroot, "power.freq", "pmu:msr", counted, "cpu")
    assert opened == []
    assert rows.keys == {"cpu": [0, 2]}
    assert rows.attributes == {
        "freq_hz": [TSC_HZ * 3 // 2, TSC_HZ // 2],
        "interval_ns": [SECOND, 2 * SECOND],
    }


@pytest.mark.spec("EVT-5")
def test_a_counter_that_had_no_place_leaves_the_clock_unknown() -> None:
    """Whichever of the three."""
    whole = {"aperf": count(3), "mperf": count(2), "tsc": count(4)}
    assert compute_clock(whole) == 6
    for name in whole:
        assert compute_clock({**whole, name: count(None)}) is None


@pytest.mark.spec("EVT-5")
def test_a_state_whose_counter_had_no_place_is_left_out() -> None:
    """It is no state of no time; and without the timestamps nothing is known."""
    row = Row({"cpu": 0}, None, {"C6": count(TSC_HZ), "C7": count(None), "tsc": count(TSC_HZ)})
    growth = compute_residence(row)
    assert growth is not None
    assert growth.by == {"C6/time": SECOND}
    assert compute_residence(Row({"cpu": 0}, None, {"C6": count(1), "tsc": count(None)})) is None


@pytest.mark.spec("PWR-1")
def test_every_cpu_of_a_core_was_in_its_states(catalog: Catalog, sysroot: Sysroot) -> None:
    """Ticks become time by the timestamp counter's; cpus 0 and 2 are one core's, and the unit names one of these."""
    write_unit(sysroot, "msr", {"tsc": 0})
    write_unit(sysroot, "cstate_core", {"c6-residency": 2, "c7-residency": 3}, "0-1")
    sysroot.write("/sys/devices/system/cpu/online", "0-3\n")
    for cpu, core in {0: "0,2", 1: "1,3"}.items():
        sysroot.write(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{core}\n")
    counted = {
        0: {"C6": count(TSC_HZ // 2), "C7": count(TSC_HZ // 4), "tsc": count(TSC_HZ)},
        1: {"C6": count(0), "tsc": count(TSC_HZ)},
    }
    asked = ("power.cstate", "pmu:cstate_core", counted)
    rows, opened, _ = make(CoreStates(), catalog, sysroot, *asked, "cpu", "power.state")
    assert opened == [0, 1]
    whose = zip(rows.keys["cpu"], rows.keys["power.state"], strict=True)
    found = dict(zip(whose, rows.attributes["residency"], strict=True))
    core = {(cpu, state): share for cpu in (0, 2) for state, share in (("C6", 0.5), ("C7", 0.25))}
    assert found == core | {(1, "C6"): 0.0, (3, "C6"): 0.0}
    assert "entries" not in rows.attributes
    rows, opened, _ = make(CoreStates(), catalog, sysroot, *asked, cpus=(2,))
    assert opened == [0]
    assert (rows.keys, rows.attributes["residency"]) == ({"cpu": [2]}, [0.75])
    whole, _, _ = make(CoreStates(), catalog, sysroot, *asked)
    assert whole.attributes["residency"] == [0.375]


@pytest.mark.spec("PWR-1")
def test_energy_is_the_packages_or_each_domains(catalog: Catalog, sysroot: Sysroot) -> None:
    """Domains are called as powercap calls them, and are in no sum."""
    events = {"energy-pkg": 2, "energy-cores": 1, "energy-ram": 3, "energy-psys": 5}
    write_unit(sysroot, "power", events, "0,4")
    for name in events:
        sysroot.write(f"{DEVICES}/power/events/{name}.scale", "0.5\n")
        sysroot.write(f"{DEVICES}/power/events/{name}.unit", "Joules\n")
    for cpu, package in {0: 0, 4: 1}.items():
        sysroot.write(f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{package}\n")
    asked = ("power.energy", "pmu:power")
    packages = {cpu: {"energy-pkg": count(40, 2 * SECOND)} for cpu in (0, 4)}
    rows, opened, _ = make(CountedEnergy(), catalog, sysroot, *asked, packages)
    assert opened == [0, 4]
    assert rows.attributes == {"joules": [40.0], "watts": [20.0], "interval_ns": [2 * SECOND]}
    every = {cpu: {name: count(10 * number) for name, number in events.items()} for cpu in (0, 4)}
    rows, _, _ = make(CountedEnergy(), catalog, sysroot, *asked, every, "domain")
    found = dict(zip(rows.keys["domain"], rows.attributes["joules"], strict=True))
    below = {"": 10.0, "/core": 5.0, "/dram": 15.0}
    each = {f"package-{one}{name}": joules for one in (0, 1) for name, joules in below.items()}
    assert found == {**each, "psys": 25.0}


def test_a_unit_without_its_events_is_refused(catalog: Catalog, sysroot: Sysroot) -> None:
    """By the unit's name."""
    for collector, asked in (
        (CountedClocks(), ("power.freq", "pmu:msr")),
        (CoreStates(), ("power.cstate", "pmu:cstate_core")),
        (CountedEnergy(), ("power.energy", "pmu:power")),
    ):
        with pytest.raises(MachineRefused, match=asked[1].partition(":")[2]):
            make(collector, catalog, sysroot, *asked, {})
