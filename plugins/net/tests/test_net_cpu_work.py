"""net.backlog and net.softirq on the files of several kernels: cpus that come and go, counters that wrap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from omn_kernel.procfs.net import parse_softnet

from omn_core.api import MachineRefused
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.sysroot import Sysroot

Drive = Callable[..., Driver]


def make_line(processed: int, *, dropped: int = 0, cpu: int | None = None, backlog: int = 0, columns: int = 13) -> str:
    """Make a line as Linux does: eleven columns, since 5.10 thirteen, since 6.1 fifteen."""
    numbers = [processed, dropped, 3, 0, 0, 0, 0, 0, 0, 4, 5, backlog, cpu or 0, 0, 0]
    return " ".join(f"{number:08x}" for number in numbers[:columns]) + "\n"


@pytest.fixture
def drive(registry: Registry, catalog: Catalog, sysroot: Sysroot) -> Drive:
    """Make the driver of a source on the tree, of the machine or of some cpus."""

    def drive_one(source: str, backend: str, *keys: str, cpus: Sequence[int] = ()) -> Driver:
        target = bind_machine(*cpus)
        resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll", keys=keys)
        factory = registry.load(registry.collectors[source, backend].factory)
        return Driver(factory(), resolved, target, sysroot=str(sysroot))

    return drive_one


def write(sysroot: Sysroot, online: str, *lines: str) -> None:
    sysroot.write("/sys/devices/system/cpu/online", online).write("/proc/net/softnet_stat", "".join(lines))


def pick(rows: Sequence[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


def test_a_line_says_which_cpu_it_is_of_or_stands_in_the_order_of_those_online() -> None:
    """Before 5.10 the second of two lines is cpu 3's where 0 and 3 are online, and nobody's where three are."""
    new = (make_line(7, cpu=0) + make_line(9, cpu=3, backlog=2)).encode()
    assert {cpu: counts["processed"] for cpu, counts in parse_softnet(new, (0, 1, 2, 3)).items()} == {0: 7, 3: 9}
    assert parse_softnet(new, ())[3]["backlog"] == 2
    old = (make_line(7, columns=11) + make_line(9, columns=11)).encode()
    assert {cpu: counts["processed"] for cpu, counts in parse_softnet(old, (0, 3)).items()} == {0: 7, 3: 9}
    assert "backlog" not in parse_softnet(old, (0, 3))[3]
    assert parse_softnet(old, (0, 1, 3)) == {}
    assert "flow_limited" not in parse_softnet(make_line(7, columns=10).encode(), (0,))[0]


@pytest.mark.spec("NET-1")
def test_each_cpu_counts_its_packets_and_holds_some(sysroot: Sysroot, drive: Drive) -> None:
    """A cpu that never processed any has no row; the backlog is what waits at the reading itself."""
    write(sysroot, "0-2", make_line(10, cpu=0), make_line(20, cpu=1), "00000000 " * 12 + "00000002\n")
    with drive("net.backlog", "fs:proc:softnet_stat") as driver:
        write(
            sysroot,
            "0-2",
            make_line(14, cpu=0, dropped=2, backlog=6),
            make_line(20, cpu=1),
            "00000000 " * 12 + "00000002\n",
        )
        rows = driver.sample()
    assert pick(rows, "cpu", "processed", "dropped", "squeezed", "backlog") == [(0, 4, 2, 0, 6), (1, 0, 0, 0, 0)]


def test_a_counter_that_starts_over_goes_on(sysroot: Sysroot, drive: Drive) -> None:
    """The kernel writes 32 bits of it."""
    write(sysroot, "0", make_line((1 << 32) - 5, cpu=0, columns=15))
    with drive("net.backlog", "fs:proc:softnet_stat") as driver:
        write(sysroot, "0", make_line(10, cpu=0, columns=15))
        assert pick(driver.sample(), "processed") == [(15,)]
        assert driver.collector.losses().is_empty


def test_a_cpu_that_goes_offline_takes_its_last_interval_with_it(sysroot: Sysroot, drive: Drive) -> None:
    """Said, counted, and no spike when it comes back."""
    both = [make_line(10, cpu=0), make_line(20, cpu=1)]
    write(sysroot, "0-1", *both)
    with drive("net.backlog", "fs:proc:softnet_stat") as driver, drive("net.backlog", "fs:proc:softnet_stat", cpus=[1]):
        write(sysroot, "0", make_line(11, cpu=0))
        assert pick(driver.sample(), "cpu", "processed") == [(0, 1)]
        write(sysroot, "0-1", *both)
        write(sysroot, "0-1", make_line(12, cpu=0), make_line(25, cpu=1))
        assert pick(driver.sample(), "cpu", "processed") == [(0, 1)]
        write(sysroot, "0-1", make_line(12, cpu=0), make_line(26, cpu=1))
        assert pick(driver.sample(), "cpu", "processed") == [(0, 0), (1, 1)]
        assert driver.collector.losses().failed_reads == 1
        assert driver.collector.facts() == (
            "cpu 1 went offline in the window",
            "cpu 1 came online in the window, and counts from its first reading",
        )


def test_lines_that_cannot_be_told_apart_are_refused(sysroot: Sysroot, drive: Drive) -> None:
    """An old kernel's lines are those of the cpus online: another number of them is nobody's."""
    write(sysroot, "0-2", make_line(1, columns=11), make_line(2, columns=11))
    with pytest.raises(MachineRefused, match="does not tell which cpu"):
        drive("net.backlog", "fs:proc:softnet_stat").__enter__()


SOFTIRQS = """                    CPU0       CPU1
          HI:          1          2
      NET_TX:         {0}          5
      NET_RX:         {1}          {2}
"""


@pytest.mark.spec("NET-1")
def test_work_received_and_sent_is_told_apart(sysroot: Sysroot, drive: Drive) -> None:
    """By cpu, or by direction; its sum is both."""
    sysroot.write("/proc/softirqs", SOFTIRQS.format(1, 100, 200))
    with (
        drive("net.softirq", "fs:proc:softirqs") as whole,
        drive("net.softirq", "fs:proc:softirqs", "dir", cpus=[1]) as divided,
    ):
        sysroot.write("/proc/softirqs", SOFTIRQS.format(4, 110, 207))
        rows, ways = whole.sample(), divided.sample()
    assert pick(rows, "cpu", "softirqs", "rx_softirqs", "tx_softirqs") == [(0, 13, 10, 3), (1, 7, 7, 0)]
    assert pick(ways, "cpu", "dir", "softirqs") == [(1, "rx", 7), (1, "tx", 0)]
