"""The machine's switches, run queues and interrupts: captured files exact, the running kernel between two readings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from networks import send_to_oneself
from omn_kernel.procfs.interrupts import parse_counts, parse_interrupts
from omn_kernel.procfs.machine import find_stat_counter
from omn_sched.interrupts import InterruptCounts, Interrupts, SoftInterrupts
from omn_sched.machine import CpuWaits, MachineSwitches, RunQueues

from omn_core.api import MachineRefused, Target
from omn_core.model.catalog import Catalog
from omn_core.testing.harness import Driver, bind_machine, resolve_onto
from omn_core.testing.stepped import Running, Workload
from omn_core.testing.sysroot import Sysroot
from omn_core.testing.workloads import spin

Start = Callable[[Workload], Running]
STAT = "cpu  1 2 3 4\nintr 5 6\nctxt {0}\nbtime 8\nprocesses 9\nprocs_running {1}\nprocs_blocked {2}\n"


def drive(
    catalog: Catalog,
    collector: InterruptCounts,
    *,
    keys: tuple[str, ...] = (),
    cpus: tuple[int, ...] = (),
    sysroot: object = "/",
) -> Driver:
    source, backend = {
        Interrupts: ("sched.irq", "fs:proc:interrupts"),
        SoftInterrupts: ("sched.softirq", "fs:proc:softirqs"),
    }[type(collector)]
    target = bind_machine(*cpus)
    resolved = resolve_onto(catalog.entries[source], backend, target.target, mode="poll", keys=keys)
    return Driver(collector, resolved, target, sysroot=str(sysroot))


def drive_stat(catalog: Catalog, source: str, sysroot: object = "/") -> Driver:
    collector = MachineSwitches() if source == "sched.switches" else RunQueues()
    resolved = resolve_onto(catalog.entries[source], "fs:proc:stat", Target("system"), mode="poll")
    return Driver(collector, resolved, bind_machine(), sysroot=str(sysroot))


def read_switches() -> int:
    switches = find_stat_counter(Path("/proc/stat").read_bytes(), "ctxt")
    assert switches is not None
    return switches


def read_counts(path: str) -> dict[str, int]:
    table = parse_interrupts(Path(path).read_bytes())
    return {label: sum(parse_counts(line, len(table.cpus))) for label, line in table.lines.items()}


@pytest.mark.spec("SCH-1", "CAT-11")
def test_the_machines_switches_are_those_between_the_readings(catalog: Catalog) -> None:
    """Readings by hand on either side bound the row; two hundred yields of the cpu lie in it."""
    pipe = os.pipe()
    outer = read_switches()
    with drive_stat(catalog, "sched.switches") as driver:
        inner = read_switches()
        child = os.fork()
        if child == 0:
            for _ in range(200):
                os.read(pipe[0], 1)
            os._exit(0)
        for _ in range(200):
            while Path(f"/proc/{child}/syscall").read_bytes().startswith(b"running"):
                os.sched_yield()
            os.write(pipe[1], b"x")
        os.waitpid(child, 0)
        inner = read_switches() - inner
        (row,) = driver.sample()
        outer = read_switches() - outer
        assert driver.collector.losses().is_empty
    for end in pipe:
        os.close(end)
    assert 200 <= inner <= row["switches"] <= outer


@pytest.mark.spec("EVT-5")
def test_a_step_back_of_the_machines_count_is_no_row(catalog: Catalog, sysroot: Sysroot) -> None:
    """None is a zero, and a step back is unknown."""
    sysroot.write("/proc/stat", STAT.format(100, 1, 0))
    with drive_stat(catalog, "sched.switches", sysroot) as driver:
        sysroot.write("/proc/stat", STAT.format(107, 1, 0))
        assert [row["switches"] for row in driver.sample()] == [7]
        assert [row["switches"] for row in driver.sample()] == [0]
        sysroot.write("/proc/stat", STAT.format(3, 1, 0))
        assert driver.sample() == []
        assert "ctxt of the machine stepped back" in driver.collector.losses().reasons[0]


@pytest.mark.parametrize(("source", "line"), [("sched.switches", "ctxt"), ("sched.runqlen", "procs_running")])
def test_a_stat_without_the_line_is_refused(catalog: Catalog, sysroot: Sysroot, source: str, line: str) -> None:
    """A line that is not there is no zero."""
    sysroot.write("/proc/stat", "cpu 1 2 3 4\n")
    with pytest.raises(MachineRefused, match=f"has no {line} line"):
        drive_stat(catalog, source, sysroot).__enter__()


def test_queues_are_what_the_kernel_says(catalog: Catalog, sysroot: Sysroot) -> None:
    """Running and blocked tasks of the instant, read at the opening too."""
    sysroot.write("/proc/stat", STAT.format(1, 5, 2))
    with drive_stat(catalog, "sched.runqlen", sysroot) as driver:
        assert driver.collector.reads_at_open
        (row,) = driver.sample()
    assert (row["length"], row["blocked"]) == (5, 2)


@pytest.mark.spec("SCH-1")
def test_spinners_are_on_the_queues_and_the_reader_is_not(catalog: Catalog, workload: Start) -> None:
    """Three that spin are three at every reading, whichever of them has a cpu; the thread that reads adds none."""
    children = [workload(spin(60_000_000_000)) for _ in range(3)]
    for child in children:
        child.wait("ready")
        child.release()
    for child in children:
        while Path(f"/proc/{child.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"R":
            os.sched_yield()
    with drive_stat(catalog, "sched.runqlen") as driver:
        for _ in range(20):
            by_hand = find_stat_counter(Path("/proc/stat").read_bytes(), "procs_running")
            (row,) = driver.sample()
            assert row["length"] >= 3
            assert by_hand is not None
            assert by_hand >= 4


SCHEDSTAT = """version 17
timestamp 4298877616
cpu0 1 0 11 12 13 14 {0} {1} {2}
domain0 SMT 00000000,00000003 0 0 0 0
cpu1 0 0 1 2 3 4 {3} {4} {5}
domain0 SMT 00000000,00000003 0 0 0 0
"""


@pytest.mark.spec("SCH-1", "CAT-11")
def test_waits_of_cpus_are_the_files_own(catalog: Catalog, sysroot: Sysroot) -> None:
    """Running, waiting and turns, of all cpus together or of each; a cpu that goes is a failed reading."""
    expected = {
        (): [(31, 12, 7)],
        ("cpu",): [(11, 10, 5), (20, 2, 2)],
    }
    for keys, rows in expected.items():
        sysroot.write("/proc/schedstat", SCHEDSTAT.format(100, 10, 1, 200, 20, 2))
        resolved = resolve_onto(
            catalog.entries["sched.runqlat"], "fs:proc:cpu_schedstat", Target("system"), mode="poll", keys=keys
        )
        with Driver(CpuWaits(), resolved, bind_machine(), sysroot=str(sysroot)) as driver:
            sysroot.write("/proc/schedstat", SCHEDSTAT.format(111, 20, 6, 220, 22, 4))
            got = driver.sample()
            assert [(row["oncpu_ns"], row["wait_ns"], row["slices"]) for row in got] == rows
            assert [row.get("cpu") for row in got] == ([0, 1] if keys else [None])
            sysroot.write("/proc/schedstat", SCHEDSTAT.format(111, 20, 6, 220, 22, 4).partition("cpu1")[0])
            assert [row["wait_ns"] for row in driver.sample()] == [0]
            assert driver.collector.losses().failed_reads == 1


INTERRUPTS = """           CPU0       CPU1
 36:  {0:>9}  {1:>9} PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 40:          0          0 PCI-MSIX-0000:00:04.0   0-edge      virtio3-config
LOC:  {2:>9}  {3:>9}   Local timer interrupts
ERR:          7
MIS:          0
"""


def write_interrupts(sysroot: Sysroot, *counts: int) -> None:
    sysroot.write("/proc/interrupts", INTERRUPTS.format(*counts))


@pytest.mark.spec("SCH-1", "CAT-11")
def test_interrupts_are_divided_as_they_are_asked(catalog: Catalog, sysroot: Sysroot) -> None:
    """All together, by line, by cpu and by both; a line that never came has no row, one that did not move a zero."""
    expected = {
        (): [{"interrupts": 111}],
        ("irq",): [{"irq": "36", "interrupts": 11}, {"irq": "LOC", "interrupts": 100}],
        ("cpu",): [{"cpu": 0, "interrupts": 10}, {"cpu": 1, "interrupts": 101}],
        ("irq", "cpu"): [
            {"irq": "36", "cpu": 0, "interrupts": 10},
            {"irq": "36", "cpu": 1, "interrupts": 1},
            {"irq": "LOC", "cpu": 0, "interrupts": 0},
            {"irq": "LOC", "cpu": 1, "interrupts": 100},
        ],
    }
    for keys, rows in expected.items():
        write_interrupts(sysroot, 1000, 2000, 5, 6)
        with drive(catalog, Interrupts(), keys=keys, sysroot=sysroot) as driver:
            write_interrupts(sysroot, 1010, 2001, 5, 106)
            got = driver.sample()
            assert driver.collector.losses().is_empty
        assert [{name: row[name] for name in row if name != "ts_ns"} for row in got] == rows


def test_a_cpu_target_is_its_column(catalog: Catalog, sysroot: Sysroot) -> None:
    """Nothing of the other cpu is in it; a cpu that has no column is a failed reading."""
    write_interrupts(sysroot, 0, 0, 5, 6)
    with drive(catalog, Interrupts(), cpus=(1, 5), sysroot=sysroot) as driver:
        write_interrupts(sysroot, 10, 20, 5, 106)
        (row,) = driver.sample()
        losses = driver.collector.losses()
    assert (row["cpu"], row["interrupts"]) == (1, 120)
    assert "cpu 5 was offline at a reading" in losses.reasons


@pytest.mark.spec("RUN-6")
def test_a_cpu_that_goes_takes_its_column_with_it(catalog: Catalog, sysroot: Sysroot) -> None:
    """What came to it since is a failed reading; when it is back it begins with what it shows then."""
    write_interrupts(sysroot, 1000, 2000, 5, 6)
    with drive(catalog, Interrupts(), keys=("cpu",), sysroot=sysroot) as driver:
        sysroot.write("/proc/interrupts", "           CPU0\n 36:  1003  PCI virtio1-req.0\nLOC: 9  Local timer\n")
        assert [(row["cpu"], row["interrupts"]) for row in driver.sample()] == [(0, 7)]
        write_interrupts(sysroot, 1003, 2500, 9, 600)
        assert [(row["cpu"], row["interrupts"]) for row in driver.sample()] == [(0, 0)]
        write_interrupts(sysroot, 1003, 2501, 9, 600)
        assert [(row["cpu"], row["interrupts"]) for row in driver.sample()] == [(0, 0), (1, 1)]
        losses = driver.collector.losses()
    assert losses.reasons == ("cpu 1 went offline, and what came to it since its last reading is unknown",)
    assert losses.failed_reads == 1


@pytest.mark.spec("EVT-5")
def test_a_counter_that_starts_over_is_corrected_and_one_that_steps_back_is_not(
    catalog: Catalog, sysroot: Sysroot
) -> None:
    """2^32 - 5 to 7 are twelve; 2000 to 3 are unknown, and the other lines stand."""
    write_interrupts(sysroot, 2**32 - 5, 2000, 5, 6)
    with drive(catalog, Interrupts(), keys=("irq",), sysroot=sysroot) as driver:
        write_interrupts(sysroot, 7, 2000, 5, 7)
        assert [(row["irq"], row["interrupts"]) for row in driver.sample()] == [("36", 12), ("LOC", 1)]
        write_interrupts(sysroot, 7, 3, 5, 7)
        assert [(row["irq"], row["interrupts"]) for row in driver.sample()] == [("LOC", 0)]
        assert "of line 36 stepped back" in driver.collector.losses().reasons[0]
        write_interrupts(sysroot, 7, 4, 5, 7)
        assert [(row["irq"], row["interrupts"]) for row in driver.sample()] == [("36", 1), ("LOC", 0)]


def test_a_line_that_comes_counts_from_nothing(catalog: Catalog, sysroot: Sysroot) -> None:
    """The kernel shows a line from its first handler or interrupt on; one that went and came has begun anew."""
    sysroot.write("/proc/interrupts", "           CPU0\nLOC: 9  Local timer\n")
    with drive(catalog, Interrupts(), keys=("irq",), sysroot=sysroot) as driver:
        sysroot.write("/proc/interrupts", "           CPU0\n 50: 3  PCI new\nLOC: 9  Local timer\n")
        assert [(row["irq"], row["interrupts"]) for row in driver.sample()] == [("50", 3), ("LOC", 0)]
        sysroot.write("/proc/interrupts", "           CPU0\nLOC: 9  Local timer\n")
        assert [(row["irq"], row["interrupts"]) for row in driver.sample()] == [("LOC", 0)]


def test_raw_rows_say_what_a_line_is(catalog: Catalog, sysroot: Sysroot) -> None:
    """What the kernel writes behind the counts, spaces made one."""
    write_interrupts(sysroot, 1000, 2000, 5, 6)
    resolved = resolve_onto(
        catalog.entries["sched.irq"],
        "fs:proc:interrupts",
        Target("system"),
        mode="poll",
        keys=("irq", "description"),
    )
    with Driver(Interrupts(), resolved, bind_machine(), sysroot=str(sysroot)) as driver:
        rows = driver.sample()
    assert [row["description"] for row in rows] == [
        "PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0",
        "Local timer interrupts",
    ]


@pytest.mark.spec("SCH-1", "CAT-11")
@pytest.mark.parametrize(
    ("collector", "path", "label"),
    [(Interrupts, "/proc/interrupts", None), (SoftInterrupts, "/proc/softirqs", "NET_RX")],
)
def test_each_line_is_bounded_by_readings_by_hand(
    catalog: Catalog, collector: type[InterruptCounts], path: str, label: str | None
) -> None:
    """Every line of the running kernel, with packets over the loopback in the window, which are NET_RX."""
    first = read_counts(path)
    with drive(catalog, collector(), keys=(collector.key,)) as driver:
        second = read_counts(path)
        send_to_oneself(300)
        third = read_counts(path)
        rows = {row[collector.key]: row[collector.value] for row in driver.sample()}
        fourth = read_counts(path)
        assert driver.collector.losses().is_empty
    assert rows
    for name, count in rows.items():
        assert third[name] - second[name] <= count <= fourth[name] - first[name], name
    if label is not None:
        assert rows[label] > 0
