"""What /proc/<pid>/* says of a task, whatever the task calls itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.procfs.task import (
    SchedulerAccount,
    find_sched_counter,
    find_status_field,
    parse_io,
    parse_schedstat,
    parse_stat,
    parse_statm,
    parse_switches,
)


def make_stat(comm: bytes, state: bytes = b"S", flags: int = 0x400000, pid: int = 42) -> bytes:
    fields = [state, b"7", b"42", b"42", b"0", b"-1", b"%d" % flags, b"1234", b"5", b"67", b"8", b"900", b"110"]
    fields += [b"3", b"4", b"20", b"0", b"6", b"0", b"555123", b"1000", b"200"]
    return b"%d (%s) " % (pid, comm) + b" ".join(fields) + b"\n"


@pytest.mark.parametrize("comm", [b"cat", b") R 1 (", b"a\nb", b"\x1b[31m", b"\xff\xfe(", b"", b"((", b") ) )"])
def test_stat_of_any_name_gives_the_fields_after_the_last_parenthesis(comm: bytes) -> None:
    """A name that looks like the fields after it changes none of them."""
    stat = parse_stat(make_stat(comm))
    assert stat.comm == comm
    assert (stat.state, stat.parent, stat.threads, stat.start_ticks) == ("S", 7, 6, 555123)
    assert (stat.minor_faults, stat.major_faults) == (1234, 67)
    assert (stat.user_ticks, stat.system_ticks) == (900, 110)


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
def test_stat_round_trips_every_name_a_task_can_have(comm: bytes) -> None:
    """Any fifteen bytes come back as they were, with the right parent behind them."""
    stat = parse_stat(make_stat(comm))
    assert (stat.comm, stat.parent) == (comm, 7)


def test_stat_of_seven_digits_is_read() -> None:
    """A pid past the old limit is a pid."""
    assert parse_stat(make_stat(b"x", pid=4194303)).parent == 7


@pytest.mark.parametrize(("state", "ended"), [(b"Z", True), (b"X", True), (b"R", False), (b"T", False), (b"D", False)])
def test_stat_tells_a_life_that_ended(state: bytes, ended: bool) -> None:
    """A zombie and a dead task have ended, a stopped one has not."""
    assert parse_stat(make_stat(b"x", state)).has_ended is ended


def test_stat_tells_a_kernel_thread() -> None:
    """PF_KTHREAD marks a task without a program's memory."""
    assert parse_stat(make_stat(b"kworker/0:1", flags=0x208040)).is_kernel_thread
    assert not parse_stat(make_stat(b"kworker/0:1")).is_kernel_thread


@pytest.mark.parametrize("content", [b"", b"42", b"42 (x", b"42 (x) S 1", b")("])
def test_stat_that_is_none_is_refused(content: bytes) -> None:
    """Bytes that are no stat file raise ValueError, never an answer."""
    with pytest.raises(ValueError, match="no stat of a task"):
        parse_stat(content)


def test_statm_gives_size_resident_and_shared_pages() -> None:
    """The first three numbers are pages."""
    assert parse_statm(b"2500 700 300 5 0 200 0\n") == (2500, 700, 300)


def test_schedstat_gives_run_wait_and_slices() -> None:
    """Three numbers, the first two in nanoseconds."""
    assert parse_schedstat(b"1234567 89 10\n") == SchedulerAccount(1234567, 89, 10)


STATUS = b"Name:\tNSpid:\\n9\nUmask:\t0022\nState:\tS (sleeping)\nNSpid:\t4194300\t12\nVmSwap:\t      12 kB\n"


def test_status_finds_a_field_by_its_line() -> None:
    """A task cannot fake a field by its name: the kernel escapes the newline it would take."""
    assert find_status_field(STATUS, "NSpid") == "4194300\t12"
    assert find_status_field(STATUS, "VmSwap") == "12 kB"


def test_status_of_the_first_line_is_found() -> None:
    """The first line has none before it."""
    assert find_status_field(STATUS, "Name") == "NSpid:\\n9"


def test_status_lacks_what_a_kernel_does_not_write() -> None:
    """A field that is not there is None and not an empty text."""
    assert find_status_field(STATUS, "NoNewPrivs") is None


def test_io_is_read_by_the_kernels_names() -> None:
    """Seven lines, each a name and a number; one that a later kernel adds is read too."""
    content = (
        b"rchar: 7027\nwchar: 0\nsyscr: 10\nsyscw: 0\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 1\n"
    )
    assert parse_io(content)["read_bytes"] == 4096
    assert parse_io(content)["cancelled_write_bytes"] == 1
    assert len(parse_io(content + b"more: 5\n")) == 8


def test_switches_are_the_two_lines_of_the_status() -> None:
    """By choice and by force; a status without one of them is no count."""
    content = b"Name:\tx\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n"
    assert parse_switches(content) == (17, 4)
    with pytest.raises(ValueError, match="no switches"):
        parse_switches(b"Name:\tx\nvoluntary_ctxt_switches:\t17\n")


@pytest.mark.parametrize("comm", [b"cat", b"a\nb", b"x\n----", b"\nnr_switches : "])
def test_a_counter_of_the_scheduler_is_found_by_its_whole_name(comm: bytes) -> None:
    """Whatever the task calls itself in the first line; a counter this kernel does not write is None."""
    rule = b"-" * 60
    content = b"%s (7, #threads: 1)\n%s\n" % (comm, rule)
    content += b"se.nr_migrations        :       41\nnr_switches             :      100\n"
    assert find_sched_counter(content, "se.nr_migrations") == 41
    assert find_sched_counter(content, "nr_switches") == 100
    assert find_sched_counter(content, "nr_switch") is None
    assert find_sched_counter(content, "se.nr_forced_migrations") is None
