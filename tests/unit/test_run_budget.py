"""A budget: weighed, acted on by moves and then by stopping, and said."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any

import attrs
import pytest
from budget_subjects import CATALOG, MS, PLUGIN
from run_subjects import make_registry, make_session, resolve

from omn_core.errors import RequestError
from omn_core.format.as_text import TEXT
from omn_core.format.plain import compute_plain
from omn_core.format.reservations import iter_reservations
from omn_core.model.request import EmitSpec, Request, Session
from omn_core.model.resolved import ResolvedSession
from omn_core.model.result import Document
from omn_core.model.style import TextStyle
from omn_core.model.target import Target
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session
from omn_core.run import budget
from omn_core.run.runner import RunOptions, run
from omn_core.testing.stepped import Workload
from omn_core.testing.workloads import spin

SPINNER = spin(450 * MS)
SLEEPER = Workload("sleep", "import time; time.sleep(0.35)")


@pytest.fixture(autouse=True)
def _uncollected() -> Iterator[None]:
    """Take no garbage out meanwhile: of all that tests have loaded that takes 50 ms, which a budget would weigh."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def ask(laboratory: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Resolve one request of the made family under a budget, and run it where the test wants that."""
    monkeypatch.setenv("OMN_DISABLE_PLUGINS", "agent,cpu,export,gpu,io,kernel,mem,net,power,proc,redis,runtime,sched")
    laboratory.install("lab", PLUGIN, catalog__yaml=CATALOG)
    registry, catalog = laboratory.load()

    def make(mode: str, emit: str, workload: Workload = SPINNER, *, percent: float = 5.0, backend: str | None = None):
        target = Target("launch", workload.argv)
        interval_ns = 30 * MS if mode == "poll" else None
        request = Request("lab.work", mode, (EmitSpec(emit),), target=target, interval_ns=interval_ns, backend=backend)
        valid = validate_session(Session((request,), budget_percent=percent), catalog, registry)
        resolved = resolve_session(valid, registry, ProbeTable(registry), {})
        return resolved, lambda: run(resolved, registry, RunOptions(become_subreaper=True))

    return make


def run_alone(collector: str, percent: float, workload: Workload = SPINNER, target: Target | None = None, **more: Any):
    """Run one collector that has nowhere to go, under a budget."""
    request = resolve(collector, target or Target("launch", workload.argv), module="budget_subjects")
    request = attrs.evolve(request, value="made")
    return run(make_session(request, budget_percent=percent, **more), make_registry(), RunOptions())


def get_budget(document: Document) -> dict[str, Any]:
    """Return the budget's block of a document."""
    block: dict[str, Any] = compute_plain(document)["cost"]["budget"]
    return block


def name_rungs(session: ResolvedSession) -> list[tuple[str, str]]:
    return [(rung.backend.id, rung.mode) for rung in session.requests[0].rungs]


@pytest.mark.spec("CST-3")
def test_rungs_are_cheaper_and_measure_the_same(ask: Any) -> None:
    """What this machine has, in the request's unit, each cheaper than the one before; what is none is named."""
    session, _ = ask("poll", "summary")
    assert name_rungs(session) == [("fails", "poll"), ("cheap", "poll")]
    (request,) = session.requests
    assert [[rung.backend.id for rung in one.rungs] for one in request.rungs] == [["cheap"], []]
    assert request.passed_rungs == (
        "bytes in mode poll: it measures in bytes, not in count",
        "gone in mode poll: lab:missing: it is not",
    )
    assert not any(rung.pinned for rung in request.rungs)


@pytest.mark.spec("CST-3")
def test_a_trace_goes_on_as_samples_that_are_weighed(ask: Any) -> None:
    """Only where every emit weighs events, and onto a collector that weighs its samples; the other is named."""
    session, _ = ask("trace", "topk")
    assert name_rungs(session) == [("light", "sample")]
    passed = session.requests[0].passed_rungs
    assert passed == ("heavy in mode sample: it does not weigh its samples by what each stands for",)


@pytest.mark.spec("CST-3")
def test_what_is_pinned_is_left_for_no_other_mechanism(ask: Any) -> None:
    """A person who names a mechanism keeps it: it is stopped, or goes on."""
    assert name_rungs(ask("poll", "summary", backend="dear")[0]) == []
    assert name_rungs(ask("trace", "topk", backend="dear")[0]) == []


@pytest.mark.spec("CST-3", "REQ-1")
def test_events_that_could_become_samples_are_not_listed_under_a_budget(ask: Any) -> None:
    """Raw events that a budget might mix with samples are the request's error; a timeline that it cannot is none."""
    with pytest.raises(RequestError, match="may be sampled under a budget, and raw would list samples as events"):
        ask("trace", "raw")
    assert name_rungs(ask("trace", "timeline")[0]) == []


@pytest.mark.spec("CST-3", "RUN-2")
def test_a_move_goes_past_what_is_refused_and_leaves_no_gap(ask: Any) -> None:
    """20 ms a reading is over 40 %: it moves to what begins, overlaps, says so, and no tick is without its event.

    The target has at most one cpu for the 30 ms from reading to reading. On a busy machine it has a tenth of that, of
    which the run's own tenths of a millisecond a reading would be more than a smaller budget.
    """
    _, carry_out = ask("poll", "raw", percent=40.0)
    document = carry_out()
    (result,) = document.results
    budget = get_budget(document)
    (made,) = budget["moves"]
    assert (made["from"], made["to"]) == ({"backend": "dear", "mode": "poll"}, {"backend": "cheap", "mode": "poll"})
    assert made["overlap_ns"] > 0
    assert budget["passed_over"][-1] == "lab.work: fails in mode poll: it will not begin"
    assert not budget["stopped"]
    assert result.resolved.backend.id == "cheap"
    states = {link.backend: link.state.value for link in result.resolved.chain}
    assert (states["dear"], states["cheap"]) == ("band", "selected")
    assert any("moved it from dear to cheap" in fact and "both counted" in fact for fact in result.facts)
    assert "it is a guess" in result.degraded
    assert result.stopped_because is None
    assert result.raw is not None
    stamps = set(result.raw.batch.ts.tolist())
    opened, closed = (-(-at // MS) for at in (result.window.opened_ns, result.window.closed_ns))
    assert stamps >= {at * MS for at in range(opened, closed - 1)}
    assert (result.window.opened_ns, result.window.closed_ns) == (
        document.window.opened_ns,
        document.window.closed_ns,
    )


@pytest.mark.spec("CST-3")
def test_a_series_of_events_and_weighed_samples_adds_up_to_what_happened(ask: Any) -> None:
    """Each tick is one, each sample ten: together what the clock ticked, but for the overlap and the last sample."""
    _, carry_out = ask("trace", "rate", percent=10.0)
    document = carry_out()
    (made,) = get_budget(document)["moves"]
    (result,) = document.results
    assert (made["from"]["mode"], made["to"]["mode"]) == ("trace", "sample")
    assert any("two modes end to end on dear and light" in fact for fact in result.facts)
    total = result.series[0].emits["rate"]["total"]
    ticked = result.window.length_ns / MS
    assert ticked - 12 <= total <= ticked + made["overlap_ns"] / MS + 12


@pytest.mark.spec("CST-3", "CST-1")
def test_what_has_nowhere_to_go_is_stopped_and_the_program_goes_on(ask: Any) -> None:
    """It says so before anything else; the program ends by itself, and the budget was not held."""
    _, carry_out = ask("poll", "summary", backend="dear")
    document = carry_out()
    (result,) = document.results
    budget = get_budget(document)
    assert budget["stopped"]
    assert budget["within"] is False
    assert result.stopped_because is not None
    assert result.stopped_because.startswith("the budget of 5 % was spent")
    assert result.window.closed_ns < document.window.closed_ns
    assert document.ended_by == "program"
    assert document.program is not None
    assert document.program.exit == {"code": 0}
    first = next(iter_reservations(document))
    assert first.startswith("the budget of 5 % of the target's cpu stopped lab.work")
    assert budget["said"] == [first]
    text = BytesIO()
    TEXT.write(document, text, TextStyle(width=200))
    assert text.getvalue().decode().startswith(f"  stopped    {first}")


@pytest.mark.spec("CST-3")
@pytest.mark.parametrize(("spent_ms", "stops"), [(9, False), (12, True)])
def test_a_stop_waits_for_ten_milliseconds_over_the_share(
    monkeypatch: pytest.MonkeyPatch, spent_ms: int, stops: bool
) -> None:
    """A program that sleeps uses nothing to be a share of: a few milliseconds beside it stop nothing."""
    spent_ns = iter([0])
    monkeypatch.setattr(budget, "Budget", partial(budget.Budget, clock=lambda: next(spent_ns, spent_ms * MS)))
    # Of a percent of what it used less than two milliseconds are left, however slowly it starts.
    assert get_budget(run_alone("Cheap", 1.0, SLEEPER))["stopped"] == stops


@pytest.mark.spec("CST-3", "CST-1")
def test_what_is_spent_inside_the_target_is_weighed() -> None:
    """Next to none of it is omn's own; it is of the target's cpu, and not of the target's work."""
    budget = get_budget(run_alone("Inside", 30.0))
    assert budget["stopped"]
    assert (budget["against"], budget["within"]) == ("target_cpu", False)


@pytest.mark.spec("CST-1", "CST-3")
def test_a_budget_over_an_unknown_part_is_not_said_to_be_held() -> None:
    """Nothing is stopped, and nobody knows."""
    budget = get_budget(run_alone("Unknown", 1000.0))
    assert (budget["within"], budget["is_floor"], budget["stopped"]) == (None, True, False)


@pytest.mark.spec("CST-3")
def test_where_no_process_is_the_target_the_window_is_what_a_budget_is_of() -> None:
    """And a run that is over with its last request ends with the budget that stopped it."""
    document = run_alone("Dear", 5.0, target=Target("system"), duration_ns=60_000 * MS)
    budget = get_budget(document)
    assert (budget["against"], budget["within"], budget["stopped"]) == ("window", False, True)
    assert document.ended_by == "budget"
    held = get_budget(run_alone("Cheap", 90.0, target=Target("system"), duration_ns=120 * MS))
    assert (held["within"], held["stopped"]) == (True, False)


@pytest.mark.spec("CST-3")
def test_a_programs_children_are_in_what_a_budget_is_of() -> None:
    """A program that waits while its child works is no idle one: Dear costs 20 ms of each 30 beside the child."""
    child = Workload("child", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPINNER.source!r}])")
    budget = get_budget(run_alone("Dear", 500.0, child))
    assert (budget["stopped"], budget["within"]) == (False, True)


@attrs.define
class Scale:
    """A target that uses a tenth of each nanosecond, of which a reading takes omn 0.4 ms, and what else omn spends."""

    else_percent: float
    now_ns: int = 0
    weighed: int = 0

    def read_ns(self) -> int:
        self.weighed += 1
        return self.now_ns // 10

    def read_spent(self) -> int:
        return int(self.else_percent / 100 * self.now_ns // 10) + self.weighed * 400_000

    def count_weighings(self, percent: float) -> int:
        """Let twenty seconds pass, and return how often they were weighed."""
        held = budget.Budget(percent, [self], [], {}, make_registry(), self.read_spent)  # type: ignore[list-item]
        held.open(0)
        while held.due_ns < 20_000 * MS:
            self.now_ns = held.due_ns
            held.hold(self.now_ns)
        return self.weighed


@pytest.mark.spec("CST-3")
def test_weighing_takes_little_of_what_may_be_spent() -> None:
    """A tenth, so that a budget is not spent on being weighed; what is over for anything else is watched closely."""
    assert 20 <= Scale(else_percent=1).count_weighings(2.0) <= 24
    assert 190 <= Scale(else_percent=3).count_weighings(2.0) <= 200
    assert 90 <= Scale(else_percent=1).count_weighings(20.0) <= 100
