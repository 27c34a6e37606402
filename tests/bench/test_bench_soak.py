"""Five hundred runs in one process: no descriptor, no mapping and no memory stays behind."""

from __future__ import annotations

import os

from soak import iter_left_behind

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry

RUNS = 500
MOST_PAGES = 1024
"""What the process may grow by over the last four hundred runs: 4 MiB, a fraction of what one ring takes."""


def test_five_hundred_runs_leave_nothing_behind(registry: Registry, catalog: Catalog) -> None:
    """Descriptors and rings as after the first, and the memory flat once everything is loaded."""
    left = list(iter_left_behind(registry, catalog, RUNS))
    growth = left[-1][3] - left[RUNS // 5][3]
    print(
        f"{RUNS} runs: {left[0][1]} to {left[-1][1]} descriptors, {growth * os.sysconf('SC_PAGESIZE') >> 10} KiB more"
    )
    assert len({(descriptors, rings) for _, descriptors, rings, _ in left[1:]}) == 1
    assert left[-1][2] == 0
    assert growth < MOST_PAGES
