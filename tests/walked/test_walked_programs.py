"""Walks held to a debugger and to known shares, at length: `tox -e stacks`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from debugger import watch
from shared_time import FLAGS, profile_shares
from stopped_programs import running_nginx, running_python, running_sqlite3

from omn_core.testing.fixtures import Command

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked on x86-64 alone")

STOPS = 200
HZ, SECONDS = 997, 10.0
PERIOD_NS = 1_000_000_000 / HZ


@pytest.mark.spec("STK-2")
@pytest.mark.parametrize("running", [running_python, running_sqlite3, running_nginx], ids=lambda one: one.__name__)
def test_a_walk_has_the_frames_that_a_debugger_has(
    running: Callable[[Path], AbstractContextManager[int]], tmp_path: Path
) -> None:
    """Two hundred stops of a program that was built without frame pointers, frame for frame to the outermost."""
    with running(tmp_path) as pid:
        stops = watch(pid, STOPS, tmp_path, seed=1)
    assert stops.find_different() == []
    places = {frames[0] for frames in stops.frames}
    print(f"{running.__name__}: {STOPS} stops at {len(places)} places, {max(map(len, stops.frames))} frames at most")
    assert len(places) > STOPS // 10


@pytest.mark.spec("STK-1", "STK-2", "KRN-7")
@pytest.mark.parametrize("walk", FLAGS)
def test_shares_are_those_of_the_program_and_no_sample_is_unaccounted(walk: str, tmp_path: Path, omn: Command) -> None:
    """Seventy to thirty within two points, told by their callers alone; delivered and lost make up the cpu time to a
    hundredth."""
    share, result = profile_shares(omn, tmp_path, walk, HZ, SECONDS)
    fields, losses = result["fields"], result["losses"]
    came = (fields["delivered"] + losses["dropped"]) * PERIOD_NS
    print(f"{walk}: {share:.4f} of 0.7, {came / fields['ran_ns']:.4f} of the cpu time in samples")
    assert share == pytest.approx(0.7, abs=0.02)
    assert came == pytest.approx(fields["ran_ns"], rel=0.01)
