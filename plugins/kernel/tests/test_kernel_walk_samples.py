"""A sample of what `tox -e stacks` holds at length: walks against a debugger's, and shares that are known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from debugger import watch
from shared_time import profile_shares
from stopped_programs import running_python

from omn_core.testing.fixtures import Command

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked on x86-64 alone")


@pytest.mark.spec("STK-2")
def test_a_walk_of_python_has_the_frames_that_a_debugger_has(tmp_path: Path) -> None:
    """Ten stops anywhere in an interpreter, frame for frame."""
    with running_python(tmp_path) as pid:
        stops = watch(pid, 10, tmp_path, seed=7)
    assert stops.find_different() == []
    assert min(map(len, stops.frames)) > 5


@pytest.mark.spec("STK-2")
def test_a_split_of_seventy_to_thirty_is_told_by_callers(tmp_path: Path, omn: Command) -> None:
    """Four thousand samples, walked over copied stacks: within five deviations of so many."""
    share, result = profile_shares(omn, tmp_path, "dwarf", 9973, 0.4)
    deviation = (0.7 * 0.3 / max(result["fields"]["delivered"] / 2, 1)) ** 0.5
    assert share == pytest.approx(0.7, abs=5 * deviation)
