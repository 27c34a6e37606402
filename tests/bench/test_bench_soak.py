"""Five hundred runs in one process: no descriptor, no mapping and no memory stays behind."""

from __future__ import annotations

import os

from soak import FAULTS, iter_left_behind

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry

RUNS = 500
QUESTIONS = (
    *FAULTS,
    ("mem.faults", "count", ("count",)),
    ("cpu.profile", "sample", ("stack",)),
    ("cpu.cycles", "count", ("count",)),
    ("sched.switches", "sample", ("stack",)),
    ("sched.migrations", "count", ("count",)),
)
"""Counters, and samples and records of the program's and of the kernel's making, stacks walked from copies in some."""

MOST_PAGES = 1024
"""What the process may grow by over the last four hundred runs: 4 MiB, a fraction of what one ring takes."""


def test_five_hundred_runs_leave_nothing_behind(registry: Registry, catalog: Catalog) -> None:
    """Descriptors and rings as after one run of each, and the memory flat once everything is loaded."""
    left = list(iter_left_behind(registry, catalog, RUNS, QUESTIONS))
    first, last = left[len(QUESTIONS)], left[-1]
    growth = last[3] - left[RUNS // 5][3]
    print(f"{RUNS} runs: {first[1]} to {last[1]} descriptors, {growth * os.sysconf('SC_PAGESIZE') >> 10} KiB more")
    assert len({(descriptors, rings) for _, descriptors, rings, _ in left[len(QUESTIONS) :]}) == 1
    assert last[2] == 0
    assert growth < MOST_PAGES
