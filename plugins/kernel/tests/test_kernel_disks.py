"""/proc/diskstats of several kernels, and a device's own file of requests in flight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.procfs.disks import COLUMNS, WRAPS, parse_diskstats, parse_inflight

BEFORE_4_18 = b"""\
   8       0 sda 446216 784926 9550688 4382310 424847 312726 5922052 19310380 0 3376340 23705160
   8       1 sda1 1 2 3 4 5 6 7 8 9 10 11
"""
SINCE_4_18 = (
    b"   8       0 sda 446216 784926 9550688 4382310 424847 312726 5922052 19310380 0 3376340 23705160 12 3 4096 7\n"
)
SINCE_5_5 = b"""\
 259       0 nvme0n1 255999 814 12369153 47919 996852 81 36123024 425995 3 301795 580470 1 2 3 4 60602 106555
 104       0 cciss/c0d0 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""


def test_fourteen_fields_are_reads_and_writes_alone() -> None:
    """A kernel before 4.18 counts no discards: they are absent, not zero."""
    disks = parse_diskstats(BEFORE_4_18)
    assert list(disks) == ["sda", "sda1"]
    assert disks["sda"].counters["read_sectors"] == 9550688
    assert disks["sda"].counters["request_ms"] == 23705160
    assert "discards" not in disks["sda"].counters
    assert (disks["sda1"].in_flight, disks["sda1"].counters["busy_ms"]) == (9, 10)


def test_eighteen_fields_count_discards_and_no_flushes() -> None:
    """Linux 4.18 to 5.4."""
    counters = parse_diskstats(SINCE_4_18)["sda"].counters
    assert (counters["discards"], counters["discard_sectors"]) == (12, 4096)
    assert "flushes" not in counters


def test_twenty_fields_count_everything() -> None:
    """Linux 5.5 and later; a slash in a name is part of it."""
    disks = parse_diskstats(SINCE_5_5)
    assert disks["nvme0n1"].number == "259:0"
    assert (disks["nvme0n1"].counters["flushes"], disks["nvme0n1"].counters["flush_ms"]) == (60602, 106555)
    assert disks["nvme0n1"].in_flight == 3
    assert set(disks["nvme0n1"].counters) == set(COLUMNS) - {"in_flight"}
    assert [disk.has_moved for disk in disks.values()] == [True, True, False]
    assert "cciss/c0d0" in disks


def test_fields_that_a_later_kernel_adds_are_passed_over() -> None:
    """24 fields read as 20 do."""
    longer = SINCE_5_5.replace(b"106555", b"106555 1 2 3 4")
    assert parse_diskstats(longer) == parse_diskstats(SINCE_5_5)


def test_lines_that_are_no_account_are_passed_over() -> None:
    """The seven fields that a partition had before 2.6.25, and an empty file."""
    assert parse_diskstats(b"   3    1   hda1 35486 38030 38030 38030\n") == {}
    assert parse_diskstats(b"") == {}


def test_only_milliseconds_start_over_at_two_to_the_32() -> None:
    """The kernel writes them as an unsigned int, the rest as unsigned long."""
    assert set(WRAPS) == {"read_ms", "write_ms", "busy_ms", "request_ms", "discard_ms", "flush_ms"}
    assert set(WRAPS.values()) == {1 << 32}


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=17, max_size=17))
def test_every_value_is_read_as_written(values: list[int]) -> None:
    """Whatever their size, each column is where it belongs."""
    (disk,) = parse_diskstats(b"   8       0 sda " + b" ".join(b"%d" % value for value in values) + b"\n").values()
    read = {**disk.counters, "in_flight": disk.in_flight}
    assert [read[name] for name in COLUMNS] == values


@pytest.mark.parametrize(
    ("content", "pair"), [(b"       0        0\n", (0, 0)), (b"      12   123456\n", (12, 123456))]
)
def test_requests_in_flight_are_reads_and_the_rest(content: bytes, pair: tuple[int, int]) -> None:
    """Two numbers, padded."""
    assert parse_inflight(content) == pair
