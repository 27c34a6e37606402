"""What a process had mapped when samples were taken: one layout for most, another where code replaced other code."""

from __future__ import annotations

import numpy as np
from omn_kernel.symbols.mappings import Mapping
from omn_kernel.symbols.memories import iter_layouts
from omn_kernel.symbols.spaces import Space

PAGE = 0x1000


def lay_out(puts: list[tuple[Mapping, int]], times: list[int]) -> list[tuple[list[tuple[int, int, str]], list[int]]]:
    space = Space(1, 0)
    for mapping, at_ns in puts:
        space.put(mapping, at_ns)
    return [
        ([(one.start // PAGE, one.end // PAGE, one.path) for one in mappings], chosen.tolist())
        for mappings, chosen in iter_layouts(space, np.array(times, np.int64))
    ]


def make(first: int, last: int, path: str, offset: int = 0) -> Mapping:
    return Mapping(first * PAGE, last * PAGE, offset * PAGE, path, 7)


def test_what_is_mapped_where_nothing_stood_makes_no_other_layout() -> None:
    """No sample before it is in there; the same part of the same file again, and generated code over such, are none."""
    puts = [
        (make(1, 3, "/a"), 0),
        (make(5, 6, "/b"), 10),
        (make(1, 3, "/a"), 20),
        (make(8, 9, ""), 30),
        (make(8, 9, ""), 40),
    ]
    assert lay_out(puts, [5, 15, 45]) == [([(1, 3, "/a"), (5, 6, "/b"), (8, 9, "")], [0, 1, 2])]


def test_code_that_replaced_other_code_splits_the_samples_at_its_time() -> None:
    """What it covers in part keeps the rest, at the place in the file that stands there."""
    puts = [(make(1, 5, "/a"), 0), (make(2, 3, "/b"), 10), (make(2, 3, ""), 20)]
    assert lay_out(puts, [25, 5, 15, 9]) == [
        ([(1, 5, "/a")], [1, 3]),
        ([(1, 2, "/a"), (2, 3, "/b"), (3, 5, "/a")], [2]),
        ([(1, 2, "/a"), (2, 3, ""), (3, 5, "/a")], [0]),
    ]
    space = Space(1, 0)
    for mapping, at_ns in puts:
        space.put(mapping, at_ns)
    ((pieces, _),) = iter_layouts(space, np.array([15], np.int64))
    assert [one.offset // PAGE for one in pieces] == [0, 0, 2]


def test_a_file_mapped_elsewhere_is_other_code() -> None:
    """Another part of it, or another file of its path."""
    puts = [(make(1, 2, "/a"), 0), (make(1, 2, "/a", 4), 10)]
    assert len(lay_out(puts, [5, 15])) == 2
    assert lay_out(puts, [15]) == [([(1, 2, "/a")], [0])]
