"""The deferred work of the network as programs see it, between two readings of the kernel's own counts of it."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from event_backends import EACH_BACKEND, RECORDED
from networks import Pair, make_network, pair
from omn_kernel.procfs.interrupts import parse_counts, parse_interrupts
from socket_events import DriveEvents, drive_events

from omn_core.testing.harness import bind_machine

__all__ = ["drive_events", "make_network", "pair"]

LINES = {"rx": "NET_RX", "tx": "NET_TX"}
SOURCE = "net.softirq"


def read_counts() -> dict[tuple[int, str], int]:
    """Return what each cpu counted of each direction."""
    table = parse_interrupts(Path("/proc/softirqs").read_bytes())
    counts = {way: parse_counts(table.lines[label], len(table.cpus)) for way, label in LINES.items()}
    return {(cpu, way): column[place] for way, column in counts.items() for place, cpu in enumerate(table.cpus)}


@pytest.mark.spec("NET-1", "KRN-5")
@pytest.mark.parametrize("backend", EACH_BACKEND)
def test_each_is_counted_once_and_timed_on_its_cpu(pair: Pair, drive_events: DriveEvents, backend: str) -> None:
    """Packets between two namespaces: sums and single ones lie between the kernel's counts around each reading.

    The kernel counts one that begins, and a program one that ends: one on each cpu may lie between the two, and what
    the kernel passed over besides. A busy machine counts some that pass no tracepoint: half are seen in any case.
    """
    drive = partial(drive_events, SOURCE, backend=backend)
    with (
        drive(bind_machine(), "cpu", "dir", mode="poll") as sums,
        drive(bind_machine(), mode="poll") as whole,
        drive(bind_machine(0), "cpu", mode="poll") as of_one,
        drive(bind_machine()) as single,
    ):
        first = read_counts()
        for driver in (sums, whole, of_one):
            driver.sample()
        began_ns, second = time.monotonic_ns(), read_counts()
        pair.send(400, 100)
        third, ended_ns = read_counts(), time.monotonic_ns()
        rows, (all_of_it,), (of_cpu,) = sums.sample(), whole.sample(), of_one.sample()
        single.sample()
        fourth = read_counts()
    assert sum(third[key] - second[key] for key in third) > 0
    skips = [driver.collector.losses().skipped for driver in (sums, whole, of_one, single)]
    assert backend == RECORDED or not any(skips)
    for row in rows:
        key = (row["cpu"], row["dir"])
        assert (third[key] - second[key]) // 2 - 1 - skips[0] <= row["softirqs"] <= fourth[key] - first[key] + 1
    spread = len(third)
    least, most = (sum(one[key] - other[key] for key in one) for one, other in ((third, second), (fourth, first)))
    assert least // 2 - spread - skips[1] <= all_of_it["softirqs"] <= most + spread
    assert all_of_it["softirqs"] == all_of_it["rx_softirqs"] + all_of_it["tx_softirqs"]
    assert all_of_it["time_ns"] > 0
    of_first = [sum(one[0, way] - other[0, way] for way in LINES) for one, other in ((third, second), (fourth, first))]
    assert of_cpu["cpu"] == 0
    assert of_first[0] // 2 - 1 - skips[2] <= of_cpu["softirqs"] <= of_first[1] + 1
    seen = [row for row in single.rows if began_ns <= row["ts_ns"] <= ended_ns]
    assert least // 2 - spread - skips[3] <= len(seen) <= most + spread
    assert all(0 < row["time_ns"] <= row["ts_ns"] for row in seen)
    assert {row["dir"] for row in seen} <= {"rx", "tx"}
    assert sum(row["rx_softirqs"] for row in seen) == sum(row["dir"] == "rx" for row in seen)
