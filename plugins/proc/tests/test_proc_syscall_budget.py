"""A budget over proc.syscall, whose programs run in the target's own calls, on a program that does little else."""

from __future__ import annotations

import sys

import pytest
from omn_kernel.bpf import loading
from program_costs import timing_programs

from omn_core.format.plain import compute_plain
from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec, Request, Session
from omn_core.model.target import Target
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session
from omn_core.run.runner import RunOptions, run

CALLS = """
import os, time
end = time.process_time() + 0.4
while time.process_time() < end:
    for _ in range(100):
        os.getppid()
"""


@pytest.mark.spec("CST-3", "CST-1", "CST-2")
@pytest.mark.usefixtures("loads_programs")
def test_programs_that_cost_more_than_the_budget_are_stopped(
    registry: Registry, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel's account of them, in the window: they are gone, and the program goes on to its own end."""
    monkeypatch.setattr(loading, "_read_is_timed", lambda: True)  # the descriptor below says so to this process alone
    target = Target("launch", (sys.executable, "-S", "-c", CALLS))
    request = Request("proc.syscall", "count", (EmitSpec("count"),), target=target)
    valid = validate_session(Session((request,), budget_percent=0.5), catalog, registry)
    with timing_programs():
        resolved = resolve_session(valid, registry, ProbeTable(registry), {})
        document = run(resolved, registry, RunOptions(become_subreaper=True))
    (result,) = document.results
    plain = compute_plain(document)
    budget = plain["cost"]["budget"]
    assert budget["stopped"]
    assert (budget["within"], budget["is_floor"]) == (False, False)
    assert plain["cost"]["in_target"]["cpu_ns"] > 10_000_000
    assert budget["said"][0].startswith("the budget of 0.5 % of the target's cpu stopped proc.syscall")
    assert result.window.closed_ns < document.window.closed_ns
    assert result.events_seen > 0
    assert document.program is not None
    assert document.program.exit == {"code": 0}
