"""Which devices have rows, and what becomes of those that come, go, stand on others, start over or step back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest
from omn_kernel.procfs.disks import COLUMNS
from omn_kernel.targets import bind_dev
from step_clock import Steps

from omn_core.api import BoundTarget, EmitSpec, MachineRefused, ProbeContext, Target, TargetGone
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]
NUMBERS = {"sda": "8:0", "sda1": "8:1", "sdb": "8:16", "dm-0": "254:0", "loop0": "7:0", "nvme0c0n1": "259:9"}


@pytest.fixture
def clock() -> Steps:
    """The clock of the test's drivers."""
    return Steps()


@pytest.fixture
def drive(registry: Registry, catalog: Catalog, sysroot: Sysroot, clock: Steps) -> Drive:
    """Make the driver of a source on the tree, of the machine or of one device."""

    def make(source: str, *keys: str, dev: str | None = None, emit: EmitSpec | None = None, says: str = "") -> Driver:
        target = bind_machine() if dev is None else bind_one(sysroot, dev)
        entry = catalog.entries[source]
        how: dict[str, Any] = {"mode": "poll", "keys": keys, "predicate": says or None}
        resolved = resolve_onto(entry, "fs:proc:diskstats", target.target, **how)
        if emit is not None:
            resolved = attrs.evolve(resolved, emits=(emit,))
        factory = registry.load(registry.collectors[source, "fs:proc:diskstats"].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot), clock=clock)

    return make


def bind_one(sysroot: Sysroot, name: str) -> BoundTarget:
    return bind_dev(Target("dev", name), ProbeContext(sysroot=str(sysroot)))


def write_lines(sysroot: Sysroot, disks: Mapping[str, Mapping[str, int]], columns: int = len(COLUMNS)) -> None:
    """Write /proc/diskstats: for each device what of its counters is not zero."""
    lines = []
    for name, counters in disks.items():
        major, _, minor = NUMBERS[name].partition(":")
        values = " ".join(str(counters.get(column, 0)) for column in COLUMNS[:columns])
        lines.append(f"{major:>4} {minor:>7} {name} {values}\n")
    sysroot.write("/proc/diskstats", "".join(lines))


def lay_out(sysroot: Sysroot, *names: str) -> None:
    """Lay devices out in sysfs: a partition in its disk, dm-0 on sda1, loop0 on a file, the path hidden."""
    for name in names:
        sysroot.write_block_device(
            name,
            NUMBERS[name],
            whole="sda" if name == "sda1" else None,
            stands_on=("sda1",) if name == "dm-0" else (),
            backing_file="/image" if name == "loop0" else None,
            is_hidden=name == "nvme0c0n1",
        )


def pick(rows: Sequence[Mapping[str, object]], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


@pytest.mark.spec("IO-1", "SRC-3")
def test_without_a_direction_a_device_is_one_row_with_its_parts(sysroot: Sysroot, drive: Drive) -> None:
    """Reads and writes make the value; what was discarded stands beside it. A kernel's sector is 512 bytes."""
    lay_out(sysroot, "sda")
    write_lines(sysroot, {"sda": {"read_sectors": 100, "write_sectors": 7}})
    with drive("io.bytes", "dev") as driver:
        write_lines(sysroot, {"sda": {"read_sectors": 102, "write_sectors": 8, "discard_sectors": 64}})
        (row,) = driver.sample()
    del row["ts_ns"]
    assert row == {
        "dev": "sda",
        "bytes": 3 * 512,
        "read_bytes": 2 * 512,
        "write_bytes": 512,
        "discard_bytes": 64 * 512,
    }


@pytest.mark.spec("IO-1", "SRC-3", "EVT-2")
@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        ("io.bytes", "bytes", [("read", 1024), ("write", 512), ("discard", 2048)]),
        ("io.iops", "requests", [("read", 5), ("write", 6), ("discard", 7), ("flush", 8)]),
        ("io.merges", "merges", [("read", 1), ("write", 2), ("discard", 3)]),
    ],
)
@pytest.mark.parametrize("asked", ["keys", "filter", "emit"])
def test_a_direction_that_is_asked_for_divides_a_device(
    sysroot: Sysroot, drive: Drive, source: str, value: str, expected: list[tuple[str, int]], asked: str
) -> None:
    """One row for each direction, by a key, by a filter that names it, or by an emit of it."""
    lay_out(sysroot, "sda")
    write_lines(sysroot, {"sda": {}})
    with drive(
        source,
        *(["dev", "dir"] if asked == "keys" else []),
        says="bytes > 0 and (dir=='read')" if asked == "filter" else "",
        emit=EmitSpec("summary", attribute="dir") if asked == "emit" else None,
    ) as driver:
        grown = {"read_sectors": 2, "write_sectors": 1, "discard_sectors": 4, "reads": 5, "writes": 6, "discards": 7}
        grown |= {"flushes": 8, "read_merges": 1, "write_merges": 2, "discard_merges": 3}
        write_lines(sysroot, {"sda": grown})
        rows = driver.sample()
    assert pick(rows, "dir", value) == expected
    assert {tuple(row) for row in rows} == {("ts_ns", "dev", "dir", value)}


@pytest.mark.spec("EVT-5")
def test_what_a_kernel_does_not_count_is_absent(sysroot: Sysroot, drive: Drive) -> None:
    """14 fields have no discards, in the whole row and by direction: no zero stands for them."""
    lay_out(sysroot, "sda")
    write_lines(sysroot, {"sda": {}}, columns=11)
    with drive("io.bytes", "dev") as whole, drive("io.iops", "dir") as divided:
        write_lines(sysroot, {"sda": {"read_sectors": 2, "reads": 1}}, columns=11)
        assert "discard_bytes" not in whole.sample()[0]
        assert pick(divided.sample(), "dir", "requests") == [("read", 1), ("write", 0)]


def test_partitions_and_hidden_paths_are_not_counted_beside_their_device(sysroot: Sysroot, drive: Drive) -> None:
    """Their device's line holds what they did."""
    lay_out(sysroot, "sda", "sda1", "nvme0c0n1")
    write_lines(sysroot, {"sda": {}, "sda1": {}, "nvme0c0n1": {}})
    with drive("io.iops", "dev") as driver:
        write_lines(sysroot, {"sda": {"reads": 3}, "sda1": {"reads": 3}, "nvme0c0n1": {"reads": 3}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 3)]
        assert driver.collector.facts() == ()


def test_a_partition_that_is_named_has_its_own_account(sysroot: Sysroot, drive: Drive) -> None:
    """Its line, and nobody else's."""
    lay_out(sysroot, "sda", "sda1")
    write_lines(sysroot, {"sda": {}, "sda1": {}})
    with drive("io.iops", dev="sda1") as driver:
        write_lines(sysroot, {"sda": {"reads": 9}, "sda1": {"reads": 3}})
        assert pick(driver.sample(), "dev", "requests") == [("sda1", 3)]


def test_nothing_is_counted_twice_where_no_figure_is_divided(sysroot: Sysroot, drive: Drive) -> None:
    """A mapped device and a loop device do what those below do again: left out, and said where they moved."""
    lay_out(sysroot, "sda", "dm-0", "loop0")
    write_lines(sysroot, {"sda": {}, "dm-0": {}, "loop0": {"reads": 7}})
    with drive("io.iops") as driver:
        write_lines(sysroot, {"sda": {"reads": 3}, "dm-0": {"reads": 3}, "loop0": {"reads": 7}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 3)]
        assert driver.collector.facts() == ("dm-0 is left out of the figure: it stands on sda1",)


def test_divided_by_device_each_has_its_figure_and_the_overlap_is_said(sysroot: Sysroot, drive: Drive) -> None:
    """Every whole device has a row; the answer says which of them hold the same."""
    lay_out(sysroot, "sda", "dm-0", "loop0")
    write_lines(sysroot, {"sda": {}, "dm-0": {}, "loop0": {"reads": 7}})
    with drive("io.iops", "dev") as driver:
        write_lines(sysroot, {"sda": {"reads": 3}, "dm-0": {"reads": 3}, "loop0": {"reads": 7}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 3), ("dm-0", 3), ("loop0", 0)]
        assert driver.collector.facts() == ("dm-0 stands on sda1: what it moved is in the figures of both",)


def test_a_device_that_never_did_anything_has_no_row_until_it_does(sysroot: Sysroot, drive: Drive) -> None:
    """Sixteen idle ram disks say nothing; the first request of one is counted whole. A named one reads zero."""
    lay_out(sysroot, "sda", "sdb")
    write_lines(sysroot, {"sda": {"reads": 1}, "sdb": {}})
    with drive("io.iops", "dev") as driver, drive("io.iops", dev="sdb") as named:
        assert pick(driver.sample(), "dev", "requests") == [("sda", 0)]
        assert pick(named.sample(), "dev", "requests") == [("sdb", 0)]
        write_lines(sysroot, {"sda": {"reads": 1}, "sdb": {"reads": 4}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 0), ("sdb", 4)]


def test_a_device_that_comes_counts_from_its_making(sysroot: Sysroot, drive: Drive) -> None:
    """The kernel makes it with counters of zero, so that what its first line says was done in that interval."""
    lay_out(sysroot, "sda")
    write_lines(sysroot, {"sda": {"reads": 1}})
    with drive("io.iops", "dev") as driver:
        lay_out(sysroot, "sdb")
        write_lines(sysroot, {"sda": {"reads": 1}, "sdb": {"reads": 4}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 0), ("sdb", 4)]
        assert driver.collector.facts() == ("sdb came in the window",)
        assert driver.collector.losses().is_empty


def test_what_a_device_did_before_it_went_is_a_counted_loss(sysroot: Sysroot, drive: Drive) -> None:
    """The others go on; one of that name that comes later begins at its own making."""
    lay_out(sysroot, "sda", "sdb")
    write_lines(sysroot, {"sda": {"reads": 1}, "sdb": {"reads": 100}})
    with drive("io.iops", "dev") as driver:
        sysroot.remove("sys/class/block/sdb")
        write_lines(sysroot, {"sda": {"reads": 2}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 1)]
        losses = driver.collector.losses()
        assert losses.failed_reads == 1
        assert losses.reasons == ("sdb went away, and what it did since its last reading is in no row",)
        lay_out(sysroot, "sdb")
        write_lines(sysroot, {"sda": {"reads": 2}, "sdb": {"reads": 3}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 0), ("sdb", 3)]
        assert driver.collector.facts() == ("sdb went away in the window", "sdb came in the window")


def test_a_line_that_one_reading_lacks_is_no_device_that_went(sysroot: Sysroot, drive: Drive) -> None:
    """The kernel may leave one out while others come and go: a failed reading, and nothing is made up after it."""
    lay_out(sysroot, "sda", "sdb")
    write_lines(sysroot, {"sda": {"reads": 1}, "sdb": {"reads": 100}})
    with drive("io.iops", "dev") as driver:
        write_lines(sysroot, {"sda": {"reads": 2}})
        driver.sample()
        assert driver.collector.losses().reasons == ("the kernel left sdb out of a reading of /proc/diskstats",)
        write_lines(sysroot, {"sda": {"reads": 2}, "sdb": {"reads": 104}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 0)]
        write_lines(sysroot, {"sda": {"reads": 2}, "sdb": {"reads": 105}})
        assert pick(driver.sample(), "dev", "requests") == [("sda", 0), ("sdb", 1)]


@pytest.mark.spec("RUN-7")
@pytest.mark.parametrize("source", ["io.bytes", "io.util", "io.inflight"])
def test_the_named_device_going_away_ends_the_request(sysroot: Sysroot, drive: Drive, source: str) -> None:
    """Its end is the target's; what it did last is counted as lost."""
    lay_out(sysroot, "sda", "sdb")
    write_lines(sysroot, {"sda": {"reads": 1}, "sdb": {"reads": 1}})
    with drive(source, dev="sdb") as driver:
        driver.sample()
        sysroot.remove("sys/class/block/sdb")
        write_lines(sysroot, {"sda": {"reads": 1}})
        with pytest.raises(TargetGone):
            driver.sample()
        assert driver.collector.losses().failed_reads == 1


def test_a_device_that_went_before_it_was_read_is_refused(sysroot: Sysroot, drive: Drive) -> None:
    """Between the binding and the attach."""
    lay_out(sysroot, "sda", "sdb")
    write_lines(sysroot, {"sda": {"reads": 1}})
    driver = drive("io.bytes", dev="sdb")
    sysroot.remove("sys/class/block/sdb")
    with pytest.raises(MachineRefused, match="the target ended before it could be read"):
        driver.__enter__()


@pytest.mark.spec("EVT-5")
def test_a_counter_that_steps_back_makes_no_row(sysroot: Sysroot, drive: Drive) -> None:
    """Neither negative nor 2^64, and the loss names what stepped back and where."""
    lay_out(sysroot, "sda")
    write_lines(sysroot, {"sda": {"read_sectors": 100, "reads": 10}})
    with drive("io.bytes", dev="sda") as driver:
        write_lines(sysroot, {"sda": {"read_sectors": 8, "reads": 1}})
        assert driver.sample() == []
        assert driver.collector.losses().reasons == (
            "the kernel's read_sectors, reads of sda stepped back, and that interval is unknown",
        )


@pytest.mark.parametrize("source", ["io.bytes", "io.iops", "io.merges", "io.util", "io.inflight"])
def test_a_device_whose_accounting_is_off_is_refused(sysroot: Sysroot, drive: Drive, source: str) -> None:
    """Zeros that nobody counted are no figure: named it is refused with the switch, of the machine it is left out."""
    lay_out(sysroot, "sdb")
    sysroot.write_block_device("sda", "8:0", is_accounted=False)
    write_lines(sysroot, {"sda": {"reads": 1}, "sdb": {"reads": 1}})
    with pytest.raises(MachineRefused, match="accounting of sda is switched off") as refused:
        drive(source, dev="sda").__enter__()
    assert refused.value.remedy == "write 1 there as root"
    with drive(source, "dev") as driver:
        assert pick(driver.sample(), "dev") == [("sdb",)]
        assert "sda is switched off" in driver.collector.facts()[0]


def test_the_share_and_the_queue_are_the_growth_of_two_clocks(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """Half a second busy and three seconds of requests in one: 0.5 and 3, whatever reads and writes say."""
    lay_out(sysroot, "sda")
    write_lines(sysroot, {"sda": {"busy_ms": 100, "request_ms": 1000}})
    with drive("io.util", dev="sda") as driver:
        write_lines(sysroot, {"sda": {"busy_ms": 600, "request_ms": 4000}})
        clock.now_ns += 1_000_000_000
        (row,) = driver.sample()
    assert (row["util"], row["queue"]) == (0.5, 3.0)
    assert (row["busy_ns"], row["request_ns"], row["interval_ns"]) == (500_000_000, 3_000_000_000, 1_000_000_000)


def test_clocks_that_start_over_are_corrected(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """49.7 days of requests' time are soon over: the growth goes on across the end."""
    lay_out(sysroot, "sda")
    write_lines(sysroot, {"sda": {"busy_ms": 10, "request_ms": (1 << 32) - 1000}})
    with drive("io.util", dev="sda") as driver:
        write_lines(sysroot, {"sda": {"busy_ms": 1010, "request_ms": 500}})
        clock.now_ns += 1_000_000_000
        (row,) = driver.sample()
        assert (row["util"], row["queue"]) == (1.0, 1.5)
        assert driver.collector.losses().is_empty


def test_the_machine_is_as_busy_as_its_busiest_device(sysroot: Sysroot, drive: Drive, clock: Steps) -> None:
    """Shares of several devices make no share together; divided, each has its own."""
    lay_out(sysroot, "sda", "sdb")
    write_lines(sysroot, {"sda": {}, "sdb": {}})
    with drive("io.util") as whole, drive("io.util", "dev") as divided:
        write_lines(sysroot, {"sda": {"busy_ms": 100, "request_ms": 900}, "sdb": {"busy_ms": 700, "request_ms": 700}})
        clock.now_ns += 1_000_000_000
        assert pick(whole.sample(), "dev", "util", "queue") == [("sdb", 0.7, 0.7)]
        assert pick(divided.sample(), "dev", "util") == [("sda", 0.1), ("sdb", 0.7)]


def test_requests_in_flight_are_the_larger_of_two_accounts(sysroot: Sysroot, drive: Drive) -> None:
    """Either may read short: 0 in the line under a queue of 199, or the other way round. Both are kept."""
    lay_out(sysroot, "sda", "sdb")
    sysroot.write_block_device("sda", "8:0", in_flight=(150, 49)).write_block_device("sdb", "8:16", in_flight=(0, 1))
    write_lines(sysroot, {"sda": {"in_flight": 0, "reads": 1}, "sdb": {"in_flight": 5}})
    names = ("dev", "in_flight", "diskstats_in_flight", "sysfs_in_flight", "read_in_flight", "write_in_flight")
    with drive("io.inflight", "dev") as divided, drive("io.inflight") as whole:
        assert pick(divided.sample(), *names) == [("sda", 199, 0, 199, 150, 49), ("sdb", 5, 5, 1, 0, 1)]
        assert pick(whole.sample(), *names) == [(None, 204, 5, 200, 150, 50)]
        assert divided.collector.reads_at_open


@pytest.mark.spec("EVT-5")
def test_an_account_that_cannot_be_read_is_absent(sysroot: Sysroot, drive: Drive) -> None:
    """The line's figure stands alone, and no zero is made of the other."""
    lay_out(sysroot, "sda")
    sysroot.remove("sys/devices/virtual/block/sda/inflight")
    write_lines(sysroot, {"sda": {"in_flight": 3}})
    with drive("io.inflight", dev="sda") as driver:
        (row,) = driver.sample()
    assert (row["in_flight"], row["diskstats_in_flight"]) == (3, 3)
    assert "sysfs_in_flight" not in row
