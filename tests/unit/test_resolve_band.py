"""What a cost band does to the walk down a chain: a request moves, stays and says so, or is pinned."""

from __future__ import annotations

from typing import Any

import pytest

from omn_core.errors import RequestError
from omn_core.format.sentences import render_chosen, render_passed_over
from omn_core.model.request import Request, Session, parse_emit
from omn_core.model.resolved import LinkState, ResolvedRequest
from omn_core.model.target import Target
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session


@pytest.fixture
def resolve(laboratory: Any, entry_text: Any) -> Any:
    """The function that resolves one poll of `lab.depth` on a chain of `(id, state, cost, more)` within a band."""

    def run(chain: list[tuple[str, str, str, str]], band: str | None, **fields: Any) -> ResolvedRequest:
        links = [
            f"{{id: {name}, requires: ['lab:{state}'], cost: {cost}{', ' if more else ''}{more}"
            f"{', degrades: it knows less' if place else ''}}}"
            for place, (name, state, cost, more) in enumerate(chain)
        ]
        laboratory.install_lab(entry_text(None, "\n".join(links)), [("lab.depth", name) for name, *_ in chain])
        registry, catalog = laboratory.load()
        request = Request("lab.depth", "poll", (parse_emit("summary"),), target=Target("pid", (1,)), **fields)
        session = Session((request,), duration_ns=1, cost_band=band)
        valid = validate_session(session, catalog, registry)
        return resolve_session(valid, registry, ProbeTable(registry), {}).requests[0]

    return run


DEAR = ("dear", "available", "high", "")
CHEAP = ("cheap", "available", "low", "")


def states(resolved: ResolvedRequest) -> list[tuple[str, str]]:
    """Return the chain as walked."""
    return [(link.backend, link.state.value) for link in resolved.chain]


@pytest.mark.spec("REQ-16")
def test_a_band_moves_a_request_to_a_later_backend_and_it_is_said(resolve: Any) -> None:
    """The dearer one is passed over with the state `band`, and what the cheaper one loses is said."""
    resolved = resolve([DEAR, CHEAP], "low")
    assert states(resolved) == [("dear", "band"), ("cheap", "selected")]
    assert resolved.degraded == ("it knows less",)
    assert render_passed_over(resolved) == ["dear band: it declares high, more than the band low"]
    assert resolved.over_band is None
    for band in (None, "high"):
        assert states(resolve([DEAR, CHEAP], band)) == [("dear", "selected")]


@pytest.mark.spec("REQ-16")
def test_a_request_that_only_a_dearer_backend_serves_says_so(resolve: Any) -> None:
    """A band is no budget: what the machine serves at a higher cost alone is served, and named."""
    resolved = resolve([("gone", "missing", "low", ""), DEAR, ("lost", "restricted", "low", "")], "low")
    assert states(resolved) == [("gone", "missing"), ("dear", "selected"), ("lost", "restricted")]
    assert resolved.over_band == "low"
    assert render_chosen(resolved) == "dear, cost high, more than the band low"


@pytest.mark.spec("REQ-16")
def test_a_backend_that_could_not_be_checked_is_no_place_to_move_to(resolve: Any) -> None:
    """One that is available and dearer serves before one within the band of which something is unknown."""
    resolved = resolve([DEAR, ("unsure", "unknown", "low", "")], "low")
    assert states(resolved) == [("dear", "selected"), ("unsure", "unknown")]


@pytest.mark.spec("REQ-16")
def test_a_pinned_backend_is_never_moved(resolve: Any) -> None:
    """Whoever pins one has chosen what it costs."""
    resolved = resolve([DEAR, CHEAP], "low", backend="dear")
    assert states(resolved) == [("dear", "selected")]
    assert (resolved.pinned, resolved.over_band) == (True, None)


@pytest.mark.spec("REQ-16", "RES-4")
@pytest.mark.parametrize(
    ("fields", "lacks", "state"),
    [
        ({"keys": ("task",)}, "keys: [cpu]", LinkState.KEYS),
        ({"filter": "share > 0.5"}, "filter_fields: [comm]", LinkState.FILTER),
    ],
)
def test_a_request_moves_only_to_what_answers_the_same(
    resolve: Any, fields: dict[str, Any], lacks: str, state: LinkState
) -> None:
    """A cheaper backend whose events lack the key or the field is passed over for the next, or the dearer one stays."""
    poor = ("poor", "available", "low", lacks)
    assert states(resolve([DEAR, poor, CHEAP], "low", **fields)) == [
        ("dear", "band"),
        ("poor", state.value),
        ("cheap", "selected"),
    ]
    resolved = resolve([DEAR, poor], "low", **fields)
    assert (resolved.backend.id, resolved.over_band) == ("dear", "low")


@pytest.mark.spec("REQ-16")
def test_a_band_nobody_knows_is_the_requests(resolve: Any) -> None:
    """The catalog's words for the cheapest and the dearest are no bands to ask."""
    for word in ("free", "extreme", "cheap"):
        with pytest.raises(RequestError, match=f"no cost band is called '{word}'; the bands are low, med, high"):
            resolve([CHEAP], word)
