"""Keys that are read from stacks: the innermost frame's function and file, and every function an event was within."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import REGISTRY, WINDOW, make_batch, make_document, make_resolved, make_result

from omn_core.emit.answer import answer
from omn_core.emit.series import divide
from omn_core.emit.stack_keys import add_leaves, count_stackless
from omn_core.format.events import iter_rows
from omn_core.model.batch import Batch
from omn_core.model.losses import Losses
from omn_core.model.result import RawEvents
from omn_core.model.stacks import Frame, Stacks

Names = tuple[str, ...]


def make_events(*chains: Names | None) -> tuple[Batch, Stacks]:
    """Make an event of the value 1 for each chain of names, the innermost first; None is an event without a stack."""
    stacks = Stacks()
    numbers = [
        -1
        if chain is None
        else stacks.intern([stacks.intern_frame(Frame(name, f"/lib/{name[0]}", "symtab")) for name in chain])
        for chain in chains
    ]
    batch = make_batch([1] * len(chains), keys={"cpu": [place % 2 for place in range(len(chains))]})
    return attrs.evolve(batch, stack=np.array(numbers, np.int64)), stacks


def ask_keys(emit: str, keys: Names, batch: Batch, stacks: Stacks) -> Any:
    resolved = make_resolved((emit,), mode="sample", keys=keys)
    return answer(resolved, REGISTRY, batch, WINDOW, Losses(), "pid 7", stacks)


CHAINS = st.lists(st.one_of(st.none(), st.lists(st.sampled_from("abcd"), max_size=6).map(tuple)), max_size=20)


@pytest.mark.spec("EVT-6", "EVT-2")
@given(CHAINS)
def test_an_event_is_in_the_series_of_each_function_it_was_within(chains: list[Names | None]) -> None:
    """Once in each, however often that called itself; without a stack in the one of no function, and every event."""
    batch, stacks = make_events(*chains)
    found = {key["within"]: part.ts.tolist() for key, part in divide(batch, ("within",), stacks)}
    expected: dict[str | None, list[int]] = {}
    for place, chain in enumerate(chains):
        for name in dict.fromkeys(chain or (None,)):
            expected.setdefault(name, []).append(WINDOW.opened_ns + place)
    assert found == expected


@pytest.mark.spec("EVT-6")
@given(CHAINS)
def test_a_function_is_the_innermost_frame(chains: list[Names | None]) -> None:
    """Its name and its file; an event without a frame has neither, and is counted."""
    batch, stacks = make_events(*chains)
    shown = add_leaves(batch, stacks, ("func", "object", "within"))
    leaves = [chain[0] if chain else None for chain in chains]
    assert shown.attributes["func"].to_list() == leaves
    assert shown.attributes["object"].to_list() == [None if leaf is None else f"/lib/{leaf}" for leaf in leaves]
    assert "within" not in shown.attributes
    assert count_stackless(batch) == chains.count(None)


def test_other_keys_divide_beside_it() -> None:
    """The keys in the order they were asked in, an event in each of its pairs."""
    batch, stacks = make_events(("leaf", "main"), ("main",), ("leaf", "main"))
    found = [(*key.values(), len(part)) for key, part in divide(batch, ("cpu", "within"), stacks)]
    assert found == [(0, "leaf", 2), (0, "main", 2), (1, "main", 1)]


def test_what_a_collector_says_itself_stays() -> None:
    """A source whose events name a function of their own is not overruled by their stacks."""
    batch, stacks = make_events(("leaf",))
    own = attrs.evolve(batch, attributes={**batch.attributes, "func": make_batch([0], func=["own"]).attributes["func"]})
    assert add_leaves(own, stacks, ("func",)).attributes["func"].to_list() == ["own"]


@pytest.mark.spec("EVT-6")
def test_inclusive_shares_are_of_all_events() -> None:
    """A function that is on every stack has the whole, and the shares make more than one together."""
    batch, stacks = make_events(("hot", "main"), ("hot", "main"), ("hot", "main"), ("cold", "main"))
    series, _ = ask_keys("topk", ("within",), batch, stacks)
    rows = [row for one in series for row in one.emits["topk"]["rows"]]
    assert {(row["key"]["within"], row["value"], row["share"]) for row in rows} == {
        ("main", 4, 1.0),
        ("hot", 3, 0.75),
        ("cold", 1, 0.25),
    }


def test_a_flat_profile_ranks_functions() -> None:
    """By an attribute that no collector gives: shares of one whole."""
    batch, stacks = make_events(("hot", "main"), ("hot", "main"), ("cold", "main"), None)
    ((series,), _) = ask_keys("topk:2@func", (), batch, stacks)
    assert [(row["key"]["func"], row["value"], row["share"]) for row in series.emits["topk:2@func"]["rows"]] == [
        ("hot", 2, 0.5),
        ("cold", 1, 0.25),
    ]


@pytest.mark.spec("EVT-6")
def test_raw_events_are_the_runs_own_whatever_divides_them() -> None:
    """One row each, with its whole stack and without what was read from it; one without a stack says none."""
    batch, stacks = make_events(("hot", "a;b\x1b", "main"), None)
    series, raw = ask_keys("raw", ("within",), batch, stacks)
    assert raw is not None
    assert raw.batch is batch
    assert [(one.key["within"], one.emits["raw"]["events"]) for one in series][-1] == (None, 1)
    result = attrs.evolve(make_result(batch, ["raw"], mode="sample"), raw=RawEvents(batch, stacks))
    (rows,) = iter_rows(make_document(result).results[0])
    assert rows[0]["stack"] == ["hot", "a;b\x1b", "main"]
    assert "stack" not in rows[1]
    assert rows[0]["attrs"] == {"value": 1}
