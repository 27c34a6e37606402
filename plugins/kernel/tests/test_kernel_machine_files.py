"""/proc/stat, meminfo, vmstat, loadavg, pressure, and the folders of /sys, on several machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.procfs.machine import (
    find_stat_counter,
    parse_cpu_ticks,
    parse_flat_keyed,
    parse_loadavg,
    parse_meminfo,
)
from omn_kernel.psi import Pressure, compute_share, parse_pressure
from omn_kernel.sysfs import find_huge_page_folders, parse_node_meminfo, parse_number_list, read_cpus

from omn_core.testing.sysroot import Sysroot

STAT = b"""cpu  100 2 30 4000 5 0 6 7 0 0
cpu0 50 1 15 2000 2 0 3 3 0 0
cpu2 50 1 15 2000 3 0 3 4 0 0
intr 5000 1 2 3
ctxt 987654
btime 1790000000
processes 4242
"""


def test_cpu_ticks_skip_an_offline_cpu() -> None:
    """A cpu that is offline has no line, and the ones beside it keep their numbers."""
    ticks = parse_cpu_ticks(STAT)
    assert set(ticks) == {None, 0, 2}
    assert ticks[2][:4] == (50, 1, 15, 2000)


def test_stat_counters_are_found_by_their_line() -> None:
    """A one-number line is found by its name, and absent where the kernel has none."""
    assert find_stat_counter(STAT, "ctxt") == 987654
    assert find_stat_counter(STAT, "processes") == 4242
    assert find_stat_counter(STAT, "procs_running") is None


def test_cpu_ticks_of_an_old_kernel_lack_the_last_columns() -> None:
    """Columns that are not written are not made up."""
    assert parse_cpu_ticks(b"cpu  1 2 3 4 5 6 7\n")[None] == (1, 2, 3, 4, 5, 6, 7)


def test_meminfo_is_bytes_but_for_counts() -> None:
    """HugePages_Total is a number of pages and stays one."""
    amounts = parse_meminfo(b"MemTotal:       16384 kB\nActive(anon):  10 kB\nHugePages_Total:       3\n")
    assert amounts == {b"MemTotal": 16384 * 1024, b"Active(anon)": 10240, b"HugePages_Total": 3}


def test_flat_keyed_reads_every_line() -> None:
    """vmstat, memory.stat and cpu.stat are pairs."""
    assert parse_flat_keyed(b"pswpin 3\npswpout 18446744073709551615\n") == {b"pswpin": 3, b"pswpout": 2**64 - 1}


def test_loadavg_reads_averages_and_tasks() -> None:
    """The fourth field is two numbers."""
    load = parse_loadavg(b"0.20 1.18 12.12 1/80 11206\n")
    assert (load.one_minute, load.five_minutes, load.fifteen_minutes) == (0.20, 1.18, 12.12)
    assert (load.runnable, load.tasks) == (1, 80)


def test_pressure_reads_shares_and_nanoseconds() -> None:
    """Averages are shares of one, totals nanoseconds."""
    lines = parse_pressure(
        b"some avg10=12.50 avg60=1.00 avg300=0.10 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    )
    assert lines["some"] == Pressure(0.125, 0.01, 0.001, 123456000)
    assert lines["full"].total_ns == 7000


def test_pressure_of_the_cpu_lacks_full_before_5_13() -> None:
    """A line that is not written is absent."""
    assert set(parse_pressure(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n")) == {"some"}


@given(st.integers(0, 2**62), st.integers(1, 10**12))
def test_what_was_waited_is_a_share_whatever_the_totals_do(waited: int, length: int) -> None:
    """The kernel may add up a wait from before the interval: no share leaves 0..1."""
    assert 0 <= compute_share(waited, length) <= 1
    assert compute_share(waited, length) == min(waited / length, 1)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [(b"0-1\n", (0, 1)), (b"\n", ()), (b"0,2-4,7\n", (0, 2, 3, 4, 7)), (b"0-255\n", tuple(range(256)))],
)
def test_number_lists_are_expanded(text: bytes, numbers: tuple[int, ...]) -> None:
    """Ranges hold both their ends."""
    assert parse_number_list(text) == numbers


def test_cpus_are_read_under_the_sysroot(sysroot: Sysroot) -> None:
    """A cpu may be possible and not online."""
    sysroot.write("/sys/devices/system/cpu/possible", "0-3\n").write("/sys/devices/system/cpu/online", "0,2-3\n")
    assert read_cpus(str(sysroot), "possible") == (0, 1, 2, 3)
    assert read_cpus(str(sysroot), "online") == (0, 2, 3)


def test_node_meminfo_drops_the_nodes_prefix() -> None:
    """Names are the kernel's, without the node before them."""
    amounts = parse_node_meminfo(b"Node 0 MemTotal:        5466316 kB\nNode 0 HugePages_Total:     2\n")
    assert amounts == {b"MemTotal": 5466316 * 1024, b"HugePages_Total": 2}


def test_huge_page_folders_are_those_with_counters(sysroot: Sysroot) -> None:
    """A kernel between 6.7 and 6.8 has the folders and no counters: it has none to read."""
    base = "/sys/kernel/mm/transparent_hugepage"
    sysroot.write(f"{base}/hugepages-64kB/stats/anon_fault_alloc", "1")
    sysroot.write(f"{base}/hugepages-2048kB/stats/anon_fault_alloc", "1")
    sysroot.write(f"{base}/hugepages-16kB/enabled", "never")
    assert list(find_huge_page_folders(str(sysroot))) == [65536, 2097152]


def test_a_kernel_without_huge_pages_has_no_folder(sysroot: Sysroot) -> None:
    """Nothing there is no error."""
    assert find_huge_page_folders(str(sysroot)) == {}
