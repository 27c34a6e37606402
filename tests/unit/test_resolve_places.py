"""Targets that stand still: found once, before a backend is chosen, and handed to the probes that are then asked."""

from __future__ import annotations

import binders
import pytest
from run_subjects import make_registry

from omn_core.errors import MachineRefused, NotCollected, RunFailed
from omn_core.model.probe import Need
from omn_core.model.rows import RequirementRow, TargetRow
from omn_core.model.target import Target
from omn_core.resolve.probes import ProbeTable


@pytest.fixture
def probes() -> ProbeTable:
    """The machine, asked through binders that note what they are asked."""
    binders.ASKED.clear()
    registry = make_registry()
    registry.targets["container"] = TargetRow("container", "binders:bind")
    registry.requirements["lab"] = RequirementRow("lab", "binders:probe")
    return ProbeTable(registry)


@pytest.mark.spec("REQ-17")
def test_a_place_is_found_once_for_all_requests(probes: ProbeTable) -> None:
    """Asking may take another program; a refusal is as good the second time."""
    first = probes.find_place(Target("container", "web"))
    assert first is not None
    assert first.target == Target("cgroup", "/web")
    assert probes.find_place(Target("container", "web")) is first
    for _ in range(2):
        with pytest.raises(MachineRefused, match="it is not there"):
            probes.find_place(Target("container", "refused"))
    assert binders.ASKED == ["web", "refused"]


def test_a_process_is_no_place(probes: ProbeTable) -> None:
    """The run that needs it holds it."""
    assert all(probes.find_place(target) is None for target in (Target("pid", (1,)), Target("system")))


def test_a_binder_that_raises_and_a_kind_that_nobody_finds_differ(probes: ProbeTable) -> None:
    """One is a plugin's mistake, the other the build's gap."""
    with pytest.raises(RunFailed, match="finding --container broken failed: binders:bind raised OSError: no words"):
        probes.find_place(Target("container", "broken"))
    with pytest.raises(NotCollected, match="nothing installed here finds a target of kind 'gpu'"):
        probes.find_place(Target("gpu", "0"))


@pytest.mark.spec("REQ-11", "PRB-1")
def test_a_probe_answers_for_each_place_of_its_own(probes: ProbeTable) -> None:
    """One cgroup may have an account that the next lacks."""
    need = Need("lab", "lab")
    web, database = (probes.find_place(Target("container", name)) for name in ("web", "database"))
    assert web is not None
    assert probes.ask(need, "cgroup", web).reason == "cgroup at place of web"
    assert probes.ask(need, "cgroup", database).reason == "cgroup at place of database"
    assert probes.ask(need, "cgroup").reason == "cgroup at None"
