"""power.cstate by a program on cpu_idle, beside what cpuidle counted of the same cpus."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from event_backends import EACH_BACKEND
from omn_kernel.cpus import FOLDER
from omn_kernel.sysfs import read_cpus
from omn_power.idle_events import IdleEvents
from omn_power.idle_periods import IdleSums
from omn_power.idle_states import read_state_names
from omn_power.idle_trace import compute_lengths

from omn_core.api import Target
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine, resolve_onto

Awake = tuple[int, int, int]
pytestmark = pytest.mark.usefixtures("loads_typed_programs")
MS = 1_000_000
_MOST_NAPS = 200
"""How often this sleeps until a cpu idles, on a machine that is busy with something else."""


@pytest.fixture(autouse=True)
def _back_to_its_cpus() -> Iterator[None]:
    own = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, own)


def read_awake(cpu: int) -> Awake:
    """Read what cpuidle counted of a cpu, while it runs this: every period is over then, and was counted.

    Microseconds, entries, and entries with those that the hardware rejected.
    """
    os.sched_setaffinity(0, {cpu})
    folder = Path(f"{FOLDER}/cpu{cpu}")
    counts = dict.fromkeys(("time", "usage", "rejected"), 0)
    for state in read_state_names("/", cpu):
        for name in counts:
            if (folder / state / name).exists():
                counts[name] += int((folder / state / name).read_text())
    return counts["time"], counts["usage"], counts["usage"] + counts["rejected"]


def nap_until_idle(cpus: Sequence[int]) -> tuple[dict[int, Awake], dict[int, Awake]]:
    """Leave a cpu to itself until cpuidle has counted a period; returns its accounts before it and after."""
    before = after = {cpu: read_awake(cpu) for cpu in cpus}
    for _ in range(_MOST_NAPS):
        time.sleep(0.01)
        after = {cpu: read_awake(cpu) for cpu in cpus}
        if after != before:
            break
    return before, after


@pytest.mark.spec("PWR-1", "SRC-7")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_period_is_one_that_cpuidle_counts(catalog: Catalog, backend: str) -> None:
    """No fewer than in any span inside the window, no more than in one around it, and as long at least.

    Cpuidle's clock is read within the two events.
    """
    cpus = [cpu for cpu in read_cpus("/", "online") if read_state_names("/", cpu)]
    if not cpus:
        pytest.skip("no cpu here has idle states")
    resolved = resolve_onto(catalog.entries["power.cstate"], backend, Target("system"), keys=("cpu",), interval_ns=1)
    began_ns = time.monotonic_ns()
    outer = {cpu: read_awake(cpu) for cpu in cpus}
    with Driver(IdleSums(), resolved, bind_machine()) as driver:
        inner, inside = nap_until_idle(cpus)
        rows = {row["cpu"]: row for row in driver.sample()}
        around = {cpu: read_awake(cpu) for cpu in cpus}
    length_ns = time.monotonic_ns() - began_ns
    if inside == inner:
        pytest.skip("no cpu idled here meanwhile")
    for cpu in cpus:
        least, most = inside[cpu][1] - inner[cpu][1], around[cpu][2] - outer[cpu][2]
        assert least <= rows[cpu]["entries"] <= most
        # The account is in whole microseconds of each state.
        assert (inside[cpu][0] - inner[cpu][0] - len(read_state_names("/", cpu))) * 1000 <= rows[cpu]["time_ns"]
        assert rows[cpu]["time_ns"] <= length_ns


@pytest.mark.spec("PWR-1")
def test_states_are_named_as_their_driver_names_them(catalog: Catalog) -> None:
    """With a row of each on each cpu; of a cpu that is named, of that alone."""
    cpu = read_cpus("/", "online")[-1]
    names = list(read_state_names("/", cpu).values())
    if not names:
        pytest.skip("no cpu here has idle states")
    target = Target("cpu", (cpu,))
    resolved = resolve_onto(catalog.entries["power.cstate"], "bpf:raw_tp", target, keys=("cpu", "power.state"))
    with Driver(IdleSums(), resolved, bind_machine(cpu)) as driver:
        rows = driver.sample()
    assert [(row["cpu"], row["power.state"]) for row in rows] == [(cpu, name) for name in names]
    assert all(0 <= row["residency"] <= 1 for row in rows)
    assert driver.collector.losses().dropped == 0


@pytest.mark.spec("PWR-1", "SRC-7")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_period_is_an_event_of_its_own(catalog: Catalog, backend: str) -> None:
    """Of each cpu as many as cpuidle counts, none over another, each with its state and its share of the time since.

    What is on at the close ends there, and is none that cpuidle counted.
    """
    cpus = [cpu for cpu in read_cpus("/", "online") if read_state_names("/", cpu)]
    if not cpus:
        pytest.skip("no cpu here has idle states")
    resolved = resolve_onto(catalog.entries["power.cstate"], backend, Target("system"), mode="trace", keys=("cpu",))
    outer = {cpu: read_awake(cpu) for cpu in cpus}
    with Driver(IdleEvents(), resolved, bind_machine()) as driver:
        inner, inside = nap_until_idle(cpus)
        driver.sample()
    around = {cpu: read_awake(cpu) for cpu in cpus}
    if inside == inner:
        pytest.skip("no cpu idled here meanwhile")
    unfinished, skipped = driver.collector.fields()["unfinished"], driver.collector.losses().skipped
    for cpu in cpus:
        rows = [row for row in driver.rows if row["cpu"] == cpu]
        least, most = inside[cpu][1] - inner[cpu][1], around[cpu][2] - outer[cpu][2]
        assert least - skipped <= len(rows) <= most + unfinished
        for row, following in pairwise(rows):
            assert following["ts_ns"] - following["interval_ns"] == row["ts_ns"]
            assert 0 <= following["time_ns"] <= following["interval_ns"]
        assert {row.get("power.state") for row in rows} <= {None, *read_state_names("/", cpu).values()}
        assert all(row["residency"] == row["time_ns"] / row["interval_ns"] for row in rows)


def test_a_periods_share_is_of_the_time_since_its_cpus_last() -> None:
    """The first's since the program came; two cpus' periods lie between each other."""
    cpus = np.array([0, 1, 0, 1, 1], np.uint32)
    ends = np.array([110, 130, 150, 151, 151])
    assert compute_lengths(cpus, ends, 100).tolist() == [10, 30, 40, 21, 1]
    assert compute_lengths(cpus[:0], ends[:0], 100).tolist() == []
