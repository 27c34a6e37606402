"""The deferred work of the network as programs see it, between two readings of the kernel's own counts of it."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from event_backends import EACH_BACKEND, RECORDED
from held_cpus import hold_cpus
from networks import Pair, make_network, pair
from omn_kernel.procfs.interrupts import parse_counts, parse_interrupts
from socket_events import DriveEvents, drive_events

from omn_core.testing.harness import Driver, bind_machine

__all__ = ["drive_events", "make_network", "pair"]

LINES = {"rx": "NET_RX", "tx": "NET_TX"}
SOURCE = "net.softirq"
Counts: TypeAlias = dict[tuple[int, str], int]


def read_counts() -> Counts:
    """Return what each cpu counted of each direction."""
    table = parse_interrupts(Path("/proc/softirqs").read_bytes())
    counts = {way: parse_counts(table.lines[label], len(table.cpus)) for way, label in LINES.items()}
    return {(cpu, way): column[place] for way, column in counts.items() for place, cpu in enumerate(table.cpus)}


@pytest.mark.spec("NET-1", "KRN-5", "EVT-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_is_counted_once_and_timed_on_its_cpu(pair: Pair, drive_events: DriveEvents, backend: str) -> None:
    """Packets between two namespaces: sums and single ones lie between the kernel's counts around each reading.

    That is while nobody runs whom the kernel hides from tracepoints; over all of the window what passed none is a loss.
    The kernel counts one that begins, and a program one that ends: one on each cpu may lie between the two, and what
    the kernel passed over besides.
    """
    drive = partial(drive_events, SOURCE, backend=backend)
    with (
        drive(bind_machine(), "cpu", "dir", mode="poll") as sums,
        drive(bind_machine(), mode="poll") as whole,
        drive(bind_machine(0), "cpu", mode="poll") as of_one,
        drive(bind_machine()) as single,
    ):
        beginning = read_counts()
        summed = dict.fromkeys((sums, whole, of_one), 0)

        def sample(driver: Driver) -> list[dict[str, Any]]:
            rows = driver.sample()
            summed[driver] += sum(row["softirqs"] for row in rows)
            return rows

        while True:
            with hold_cpus() as until_ns:
                first = read_counts()
                for driver in summed:
                    sample(driver)
                began_ns, second = time.monotonic_ns(), read_counts()
                pair.send(400, 100)
                third, ended_ns = read_counts(), time.monotonic_ns()
                rows, (all_of_it,), (of_cpu,) = map(sample, summed)
                fourth = read_counts()
            if time.monotonic_ns() < until_ns:
                break
        end = read_counts()
        for driver in summed:
            sample(driver)
        single.sample()
    summed[single] = len(single.rows)
    assert sum(third[key] - second[key] for key in third) > 0
    skips = {driver: driver.collector.losses().skipped for driver in summed}
    assert backend == RECORDED or not any(skips.values())
    for row in rows:
        key = (row["cpu"], row["dir"])
        assert third[key] - second[key] - 1 - skips[sums] <= row["softirqs"] <= fourth[key] - first[key] + 1
    spread = len({cpu for cpu, _ in third})
    least, most = add_up(second, third), add_up(first, fourth)
    assert least - spread - skips[whole] <= all_of_it["softirqs"] <= most + spread
    assert all_of_it["softirqs"] == all_of_it["rx_softirqs"] + all_of_it["tx_softirqs"]
    assert all_of_it["time_ns"] > 0
    assert of_cpu["cpu"] == 0
    assert add_up(second, third, 0) - 1 - skips[of_one] <= of_cpu["softirqs"] <= add_up(first, fourth, 0) + 1
    seen = [row for row in single.rows if began_ns <= row["ts_ns"] <= ended_ns]
    assert least - spread - skips[single] <= len(seen) <= most + spread
    assert all(0 < row["time_ns"] <= row["ts_ns"] for row in seen)
    assert {row["dir"] for row in seen} <= {"rx", "tx"}
    assert sum(row["rx_softirqs"] for row in seen) == sum(row["dir"] == "rx" for row in seen)
    for driver, told in summed.items():
        made = add_up(beginning, end, 0 if driver is of_one else None)
        losses = driver.collector.losses()
        begun = driver.collector.fields()["begun_before"]
        # What is being served at the last reading is counted, and ends after it.
        assert made <= told + losses.dropped + losses.skipped + begun + (1 if driver is of_one else spread)
        assert all("passed no tracepoint" in reason or losses.skipped for reason in losses.reasons)


def add_up(before: Counts, after: Counts, cpu: int | None = None) -> int:
    """Add up what the kernel counted between two readings, on one cpu or all."""
    return sum(after[key] - before[key] for key in after if cpu in (None, key[0]))
