"""Events made into a request's answer."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from shapes import REGISTRY, WINDOW, make_batch, make_resolved

from omn_core.builtin import omn_emits, omn_formats
from omn_core.emit.answer import answer
from omn_core.errors import PluginError
from omn_core.format.as_text import TEXT
from omn_core.model.batch import Batch, Column, Names
from omn_core.model.losses import Losses
from omn_core.model.rows import EmitRow
from omn_core.plugins import PluginRecord, Registry


def with_emit(reference: str) -> Registry:
    """Return a registry that holds one more emit, of the distribution `omn-loud`."""
    row = EmitRow("loud", reference)
    record = PluginRecord("loud", "omn-loud", "1", rows={"emits": [row]})
    return attrs.evolve(REGISTRY, records=[record], emits={**REGISTRY.emits, "loud": row})


def ask(batch: Batch, emits: tuple[str, ...], losses: Losses | None = None, **changes: Any) -> Any:
    return answer(make_resolved(emits, **changes), REGISTRY, batch, WINDOW, losses or Losses(), "pid 7")


@pytest.mark.spec("EVT-1", "EMT-1")
def test_answers_stand_under_the_emit_as_asked_in_each_series() -> None:
    """Series are told apart by key, and `topk:2@comm` is found under that name."""
    batch = make_batch([1, 2, 3], keys={"cpu": [1, 0, 1]}, comm=["a", "b", "a"])
    series, raw = ask(batch, ("summary", "topk:2@comm"), keys=("cpu",), mode="trace")
    assert [one.key for one in series] == [{"cpu": 0}, {"cpu": 1}]
    assert list(series[1].emits) == ["summary", "topk:2@comm"]
    assert series[1].emits["topk:2@comm"]["rows"] == [{"key": {"comm": "a"}, "value": 4, "share": 1.0}]
    assert raw is None


@pytest.mark.spec("EMT-1")
def test_a_ranking_without_an_attribute_ranks_the_series() -> None:
    """Divided by keys, the greatest have a row each, a share of them all; beside it `@` ranks within each."""
    batch = make_batch([1, 6, 3, 2], keys={"cpu": [0, 1, 2, 0]}, comm=["a", "b", "a", "b"])
    series, _ = ask(batch, ("topk:2", "topk@comm"), keys=("cpu",), mode="trace")
    assert [one.emits["topk:2"]["rows"] for one in series] == [
        [{"key": {"cpu": 0}, "value": 3, "share": 0.25}],
        [{"key": {"cpu": 1}, "value": 6, "share": 0.5}],
        [],
    ]
    assert [row["share"] for row in series[0].emits["topk@comm"]["rows"]] == [2 / 3, 1 / 3]
    series, _ = ask(batch, ("topk:2", "topk@comm"), keys=("cpu",), mode="trace", apart=("cpu",))
    assert [row["share"] for one in series for row in one.emits["topk:2"]["rows"]] == [None, None]
    assert [row["share"] for row in series[0].emits["topk@comm"]["rows"]] == [2 / 3, 1 / 3]


def test_an_emit_that_answers_fewer_series_than_there_are_is_named() -> None:
    """Which answer is whose would be a guess."""
    batch = make_batch([1, 2], keys={"cpu": [0, 1]})
    with pytest.raises(PluginError, match="emit loud gave 1 answers over 2 series"):
        answer(make_resolved(("loud",), keys=("cpu",)), with_emit("strangers:FEW"), batch, WINDOW, Losses(), "")


def test_nothing_is_one_series_without_keys_and_none_with() -> None:
    """A request that saw no events still answers; a division of nothing has no parts."""
    (series,), _ = ask(Batch.empty(), ("summary", "count", "hist", "topk", "timeline", "rate", "raw"))
    assert series.key == {}
    assert series.emits["summary"]["count"] == series.emits["count"]["events"] == series.emits["raw"]["events"] == 0
    assert ask(Batch.empty(), ("summary",), keys=("cpu",))[0] == ()


@pytest.mark.spec("EMT-3")
@pytest.mark.parametrize(
    ("mode", "lost", "adds_up", "hears_all", "value"),
    [
        ("trace", 0, True, False, 0),
        ("trace", 1, True, False, None),
        ("sample", 0, True, False, None),
        ("trace", 0, False, False, None),
        ("count", 0, True, False, None),
        ("count", 0, True, True, 0),
        ("count", 1, True, True, None),
    ],
)
def test_no_events_are_a_zero_where_each_occurrence_is_one(
    mode: str, lost: int, adds_up: bool, hears_all: bool, value: int | None
) -> None:
    """Of a trace that lost nothing, and of who hears all; no samples may be some, no events beside lost ones too."""
    resolved = make_resolved(("count",), mode=mode, adds_up=adds_up)
    lost_some = Losses(dropped=lost)
    (series,), _ = answer(resolved, REGISTRY, Batch.empty(), WINDOW, lost_some, "pid 7", hears_all=hears_all)
    assert series.emits["count"]["events"] == 0
    assert series.emits["count"]["value"] == value


@pytest.mark.spec("EMT-1")
@pytest.mark.parametrize(("mode", "adds_up", "count"), [("poll", True, 1), ("poll", False, 2), ("trace", True, 2)])
def test_only_a_poll_whose_values_add_up_merges_its_ticks(mode: str, adds_up: bool, count: int) -> None:
    """Two rows of one instant are one measurement in one case alone."""
    (series,), _ = ask(make_batch([1, 2], ts=[5, 5]), ("summary",), mode=mode, adds_up=adds_up)
    assert series.emits["summary"]["count"] == count


@pytest.mark.spec("EMT-3")
@pytest.mark.parametrize(
    ("losses", "is_bound"),
    [
        (Losses(dropped=1), True),
        (Losses(throttled=1), True),
        (Losses(failed_reads=1), True),
        (Losses(skipped=1), True),
        (Losses(evicted=9), False),
        (Losses(late_ticks=2, swallowed=3), False),
        (Losses(), False),
    ],
)
def test_a_loss_makes_a_figure_a_lower_bound_and_eviction_does_not(losses: Losses, is_bound: bool) -> None:
    """What is older than the window takes nothing from a figure over the window."""
    (series,), _ = ask(make_batch([1]), ("summary",), losses)
    assert series.emits["summary"]["lower_bound"] is is_bound


@pytest.mark.spec("EVT-1")
def test_raw_keeps_the_events_in_columns_in_order_of_time() -> None:
    """The events of every series are listed once, sorted, in the batch they came in."""
    (one, other), raw = ask(make_batch([1, 2, 3], ts=[9, 7, 8], keys={"cpu": [0, 1, 0]}), ("raw",), keys=("cpu",))
    assert (one.emits["raw"]["events"], other.emits["raw"]["events"]) == (2, 1)
    assert raw is not None
    assert raw.batch.ts.tolist() == [7, 8, 9]
    assert raw.batch.attributes["value"].values.tolist() == [2, 3, 1]


def test_a_value_that_is_no_number_measures_nothing() -> None:
    """NaN, infinity and a text leave the event and take its measurement; a truth counts as one."""
    floats = make_batch([1.5, float("nan"), float("inf")])
    (series,), _ = ask(floats, ("summary", "count"))
    assert (series.emits["summary"]["count"], series.emits["count"]["events"]) == (1, 3)
    (series,), _ = ask(make_batch(["a", "b"]), ("summary", "count"))
    assert (series.emits["summary"]["count"], series.emits["count"]["value"]) == (0, None)
    truths = Batch(np.arange(3), attributes={"value": Column(np.array([True, False, True]))})
    (series,), _ = ask(truths, ("rate",))
    assert series.emits["rate"]["total"] == 2


@pytest.mark.spec("EVT-3")
def test_another_value_may_be_asked_for() -> None:
    """The measured attribute is the resolved request's, not the one named value."""
    batch = Batch.of_reading((0, 5), Names(), {}, {"value": [1], "bytes": [70]})
    (series,), _ = ask(batch, ("summary",), value="bytes")
    assert series.emits["summary"]["max"] == 70


@pytest.mark.spec("EMT-4")
def test_a_strangers_emit_is_asked_like_ours() -> None:
    """It stands beside ours, and its answer carries the mark it forgot."""
    resolved = make_resolved(("loud", "summary"))
    (series,), _ = answer(resolved, with_emit("strangers:LOUD"), make_batch([3, 8]), WINDOW, Losses(dropped=1), "")
    assert series.emits["loud"] == {"lower_bound": True, "loudest": 8, "of": ["values"]}


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("strangers:BROKEN", "emit loud raised ValueError: no such thing"),
        ("strangers:WRONG", "emit loud answered int"),
        ("strangers:NOWHERE", "importing strangers:NOWHERE raised AttributeError"),
    ],
)
def test_an_emit_that_breaks_is_named_with_its_distribution(reference: str, reason: str) -> None:
    """What a plugin raises is the plugin's, by name."""
    with pytest.raises(PluginError, match=reason) as caught:
        answer(make_resolved(("loud",)), with_emit(reference), make_batch([1]), WINDOW, Losses(), "")
    assert (caught.value.name, caught.value.distribution) == ("loud", "omn-loud")


def test_every_built_in_row_names_an_object_that_answers() -> None:
    """Each emit computes and renders, each format writes; what carries documents writes plain values."""
    for row in omn_emits():
        emit = REGISTRY.load(row.reference)
        assert callable(emit.compute)
        assert callable(emit.render)
        assert row.meaning
    encoders = {row.name: REGISTRY.load(row.reference) for row in omn_formats()}
    assert all(callable(encoder.write) and callable(encoder.write_plain) for encoder in encoders.values())
    assert encoders["text"] is TEXT


def test_an_attribute_that_an_answer_can_show_is_known_before_it_is_read() -> None:
    """By a key, by the filter, by an emit that divides by it, or because raw rows hold everything."""
    assert not make_resolved(("summary",)).shows("comm")
    assert make_resolved(("summary",), keys=("comm",)).shows("comm")
    assert make_resolved(("summary@comm",)).shows("comm")
    assert make_resolved(("raw",)).shows("comm")
    plain = make_resolved(("summary",))
    assert attrs.evolve(plain, filter_fields=("comm",)).shows("comm")
    assert attrs.evolve(plain, value="comm").shows("comm")
