"""Stacks of names made of stacks of addresses."""

from __future__ import annotations

import numpy as np
import pytest
from omn_kernel.perf.call_stacks import CallStacks, Ending
from omn_kernel.perf.chains import make_stacks
from omn_kernel.symbols.mappings import Mapping
from omn_kernel.symbols.spaces import AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser

from omn_core.api import Stacks
from omn_core.testing.sysroot import Sysroot

GONE = 1 << 22  # no process has this number
KERNEL = (1 << 64) - (1 << 30)
INNER, OUTER, TEXT = (
    0x1100,
    0x1200,
    0x2E30303030303030,
)  # the last is what printf leaves in a buffer, read as an address
INNER_NAME, OUTER_NAME = "program+0x1100", "program+0x1200"


def make(sysroot: Sysroot, *rows: tuple[int, ...]) -> list[tuple[list[str], Ending]]:
    """Make stacks of a process that has mapped one program, and tell the names in each and how it ends."""
    spaces = AddressSpaces()
    spaces.note_mapping(GONE, Mapping(0x1000, 0x2000, 0x1000, "/nowhere/program"), 0)
    calls = CallStacks(
        np.array([site for row in rows for site in row], np.uint64),
        np.zeros(sum(map(len, rows)), bool),
        np.array([len(row) for row in rows], np.int64),
        np.zeros(len(rows), np.uint8),
    )
    stacks = Stacks()
    processes, times = np.full(len(rows), GONE, np.int32), np.ones(len(rows), np.int64)
    made = make_stacks(processes, times, calls, Symboliser(spaces, str(sysroot)), stacks)
    assert len(stacks) == len(set(made.numbers.tolist()) - {-1})
    assert {frame for number in range(len(stacks)) for frame in stacks.get_frames(number)} == set(stacks.frames)
    return [
        ([frame.label for frame in stacks.get_frames(number)] if number >= 0 else [], Ending(ending))
        for number, ending in zip(made.numbers.tolist(), made.endings.tolist(), strict=True)
    ]


@pytest.mark.spec("STK-7")
def test_a_caller_that_is_no_code_of_the_program_ends_its_stack(sysroot: Sysroot) -> None:
    """What a walk by frame pointers read where there was no frame, and all that it found behind it; and that is said.

    Nothing is put in its place, and where a sample was taken stays, whatever is known of it.
    """
    assert make(
        sysroot,
        (KERNEL, INNER, OUTER),
        (INNER, TEXT, OUTER),
        (KERNEL, INNER, TEXT),
        (INNER, KERNEL, OUTER),
        (TEXT, OUTER),
        (KERNEL, KERNEL + 8),
        (INNER,),
        (),
    ) == [
        (["[kernel]", INNER_NAME, OUTER_NAME], Ending.WHOLE),
        ([INNER_NAME], Ending.BLIND),
        (["[kernel]", INNER_NAME], Ending.BLIND),
        ([INNER_NAME], Ending.BLIND),
        (["[unknown]", OUTER_NAME], Ending.WHOLE),
        (["[kernel]", "[kernel]"], Ending.WHOLE),
        ([INNER_NAME], Ending.WHOLE),
        ([], Ending.WHOLE),
    ]
