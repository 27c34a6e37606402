"""A budget over mem.faults, traced: it goes on as weighed samples of a program that runs already."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omn_core.format.plain import compute_plain
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec, Request, Session
from omn_core.model.target import Target
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session
from omn_core.run import budget as budget_module
from omn_core.run.runner import RunOptions, run

STARTING = 3000
"""More than the faults of an interpreter that starts and ends."""

FAULTS = """
import mmap, resource, sys, time
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt  # with those of its fork, which are omn's
end = time.monotonic() + 0.4
while time.monotonic() < end:
    area = mmap.mmap(-1, 400 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for offset in range(0, len(area), mmap.PAGESIZE):
        area[offset] = 1
    area.close()
with open(sys.argv[1], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
"""


@pytest.mark.spec("CST-3", "EVT-1")
def test_a_traced_series_counts_what_the_program_did_across_its_move(
    registry: Registry, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each event one, each sample the thirteen that it stands for: what getrusage counted, and the overlap twice."""
    monkeypatch.setattr(budget_module, "SLACK_NS", 1 << 60)  # it is to move, and not to be stopped after that
    told = tmp_path / "faults"
    target = Target("launch", (sys.executable, "-S", "-c", FAULTS, str(told)))
    request = Request("mem.faults", "trace", (EmitSpec("rate"),), target=target)
    valid = validate_session(Session((request,), budget_percent=0.001), catalog, registry)
    resolved = resolve_session(valid, registry, ProbeTable(registry), {})
    document = run(resolved, registry, RunOptions(become_subreaper=True))
    (made,) = compute_plain(document)["cost"]["budget"]["moves"]
    assert made["from"] == {"backend": "pmu:sw:records", "mode": "trace"}
    assert made["to"] == {"backend": "pmu:sw:records", "mode": "sample"}
    (result,) = document.results
    assert not result.losses.is_lower_bound
    assert any("two modes end to end on pmu:sw:records" in fact for fact in result.facts)
    total = result.series[0].emits["rate"]["total"]
    made_faults = int(told.read_text())
    twice = made_faults * made["overlap_ns"] / result.window.length_ns
    assert made_faults - 50 <= total <= made_faults + 4 * twice + STARTING
