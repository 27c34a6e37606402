"""Mappings over time: what the records say, and against a search through all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omn_kernel.symbols.mappings import Mapping, parse_mappings
from omn_kernel.symbols.spaces import AddressSpaces, Space

MAPS = b"""\
555555554000-555555555000 r--p 00000000 fe:00 1311 /tmp/a program
555555555000-555555556000 r-xp 00001000 fe:00 1311 /tmp/a program
7ffff7d00000-7ffff7d01000 rwxp 00000000 00:00 0 
7ffff7d02000-7ffff7d03000 r-xp 00000000 00:00 0                          [anon:jit code]
7ffff7d04000-7ffff7d05000 r-xp 00003000 08:11 77                         /tmp/gone\\012one (deleted)
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0                          [vdso]
"""  # noqa: W291 -- the kernel ends an unnamed line with a space


def test_the_executable_lines_of_a_maps_file_are_parsed() -> None:
    """Paths with spaces and newlines, memory without a name, and the kernel's own."""
    program, anonymous, named, deleted, vdso = parse_mappings(MAPS)
    assert program == Mapping(0x555555555000, 0x555555556000, 0x1000, "/tmp/a program", 1311, device=(0xFE, 0))
    assert (anonymous.path, anonymous.is_anonymous, anonymous.inode, anonymous.device) == ("", True, None, None)
    assert named.is_anonymous
    assert not named.is_file
    assert (deleted.file_path, deleted.offset, deleted.device) == ("/tmp/gone\none", 0x3000, (8, 0x11))
    assert (vdso.is_file, vdso.is_anonymous) == (False, False)
    assert Mapping(0, 1, path="//anon").is_anonymous
    assert not Mapping(0, 1, path="//anon").is_file


def find(space: Space | None, address: int, ts_ns: int) -> str | None:
    assert space is not None
    (number,) = space.find(np.array([address], np.uint64), np.array([ts_ns], np.int64)).tolist()
    return None if number < 0 else space.mappings[number].path


def make() -> AddressSpaces:
    spaces = AddressSpaces()
    spaces.note_mapping(7, Mapping(0x1000, 0x3000, 0, "/first", 1), 100)
    spaces.note_mapping(7, Mapping(0x2000, 0x4000, 0, "/second", 2), 200)
    return spaces


@pytest.mark.spec("STK-3")
def test_a_later_mapping_stands_over_an_earlier_one_from_its_time_on() -> None:
    """A sample taken before it was in the earlier one; what it covers in part keeps the rest."""
    space = make().find_space(7, 0)
    assert [find(space, 0x2800, ts) for ts in (100, 199, 200, 900)] == ["/first", "/first", "/second", "/second"]
    assert [find(space, address, 900) for address in (0xFFF, 0x1FFF, 0x3FFF, 0x4000)] == [
        None, "/first", "/second", None,
    ]  # fmt: skip


@pytest.mark.spec("STK-3")
def test_a_program_that_executes_another_has_nothing_of_what_it_mapped() -> None:
    """Samples from before keep the names of before."""
    spaces = make()
    spaces.note_exec(7, 300)
    spaces.note_mapping(7, Mapping(0x1000, 0x2000, 0, "/other", 3), 310)
    assert find(spaces.find_space(7, 299), 0x1800, 299) == "/first"
    assert find(spaces.find_space(7, 400), 0x1800, 400) == "/other"
    assert find(spaces.find_space(7, 400), 0x2800, 400) is None
    assert not spaces.is_last(spaces.get_spaces(7)[0])
    assert spaces.is_last(spaces.get_spaces(7)[1])


@pytest.mark.spec("STK-3")
def test_a_child_has_what_its_parent_had_mapped_and_nothing_later() -> None:
    """A thread that starts is no child, and a pid that is used again begins anew."""
    spaces = make()
    spaces.note_fork(7, 7, 120)
    spaces.note_fork(7, 8, 150)
    assert find(spaces.find_space(8, 900), 0x1800, 900) == "/first"
    assert find(spaces.find_space(8, 900), 0x3800, 900) is None
    spaces.note_fork(99, 8, 1000)
    assert find(spaces.find_space(8, 1001), 0x1800, 1001) is None
    assert len(spaces.get_spaces(7)) == 1


@pytest.mark.spec("STK-3")
def test_what_a_running_process_has_mapped_stands_under_every_record() -> None:
    """The maps file tells no time: what it holds may have stood there since the start."""
    spaces = make()
    spaces.note_running(7, (Mapping(0x0, 0x9000, path="/before"),), 500)
    space = spaces.find_space(7, 0)
    assert [find(space, 0x2800, ts) for ts in (50, 100, 200)] == ["/before", "/first", "/second"]


EVENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 30)), max_size=20)


@settings(max_examples=300)
@given(EVENTS, st.lists(st.tuples(st.integers(0, 70), st.integers(0, 35)), min_size=1, max_size=40))
@pytest.mark.spec("STK-3")
def test_many_samples_at_once_find_what_each_would_alone(
    events: list[tuple[int, int, int]], samples: list[tuple[int, int]]
) -> None:
    """The last mapping made by a sample's time that covers its address."""
    spaces = AddressSpaces()
    for number, (start, size, ts_ns) in enumerate(events):
        spaces.note_mapping(1, Mapping(start, start + size, 0, f"/{number}"), ts_ns)
    space = spaces.find_space(1, 0)
    if space is None:
        return
    ips, times = (np.array(column) for column in zip(*samples, strict=True))
    found = space.find(ips.astype(np.uint64), times.astype(np.int64))
    in_order = sorted(range(len(events)), key=lambda one: events[one][2])
    for (ip, ts_ns), number in zip(samples, found.tolist(), strict=True):
        truth = None
        for one in in_order:
            start, size, made = events[one]
            if made <= ts_ns and start <= ip < start + size:
                truth = f"/{one}"
        assert (None if number < 0 else space.mappings[number].path) == truth
