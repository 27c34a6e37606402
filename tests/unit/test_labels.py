"""What keys are called: labels in documents, and in text in place of numbers that a person cannot read."""

from __future__ import annotations

import io
import json
from typing import Any

import attrs
import pytest
from shapes import ask, make_batch, make_document, make_resolved, make_result

from omn_core.emit.spread import compute_repeat
from omn_core.format.as_ndjson import NDJSON
from omn_core.format.as_text import TEXT
from omn_core.format.labels import render_labels
from omn_core.format.plain import compute_plain
from omn_core.format.spread import render_spread
from omn_core.model.style import TextStyle

STYLE = TextStyle(80)
IFACE = {"iface": "name"}


def answer(*names: str | None, emits: tuple[str, ...] = ("count",), **changes: Any) -> Any:
    """Make a result of one event for each name, of the interfaces 7:1, 7:2, ..., divided by interface."""
    keys = [f"7:{place}" for place, _ in enumerate(names, 1)]
    batch = make_batch([2, 3, 5][: len(names)], keys={"iface": keys}, name=list(names))
    return make_result(batch, emits, **{"keys": ("iface",), "labels": IFACE} | changes)


def render(result: Any) -> str:
    """Return what the text format shows of a result."""
    stream = io.BytesIO()
    TEXT.write(make_document(result), stream, STYLE)
    return stream.getvalue().decode()


def test_a_series_has_the_newest_word_for_its_key() -> None:
    """An interface that was renamed in the window is called what it was called last, whatever the events' order."""
    batch = make_batch([1, 1, 1], keys={"iface": ["7:2"] * 3}, ts=[5, 9, 2], name=["eth0", "lan", "old"])
    found = make_result(batch, keys=("iface",), labels=IFACE).series
    assert [(one.key, one.labels) for one in found] == [({"iface": "7:2"}, {"iface": "lan"})]


def test_a_key_that_no_event_names_has_no_label() -> None:
    """Absence is no label: neither an empty one nor another key's; nor has a key that nothing labels."""
    assert [one.labels for one in answer(None, "eth1").series] == [{}, {"iface": "eth1"}]
    assert [one.labels for one in answer("eth0", labels={"task": "name"}).series] == [{}]
    numbers = make_batch([1], keys={"iface": ["7:2"]}, name=[4])
    assert make_result(numbers, keys=("iface",), labels=IFACE).series[0].labels == {}


def test_documents_keep_the_key_and_add_the_label() -> None:
    """`key` is what it was, and `labels` stands beside it, in the document and in each line of answers."""
    result = answer("eth0", None)
    series = compute_plain(make_document(result))["results"][0]["series"]
    assert [(one["key"], one["labels"]) for one in series] == [
        ({"iface": "7:1"}, {"iface": "eth0"}),
        ({"iface": "7:2"}, {}),
    ]
    stream = io.BytesIO()
    NDJSON.write(make_document(result), stream, STYLE)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["labels"] for line in lines if line["type"] == "answer"] == [{"iface": "eth0"}, {}]


@pytest.mark.parametrize("emits", [("count",), ("topk",), ("timeline",), ("hist",), ("count", "rate")])
def test_text_shows_what_a_key_is_called_in_place_of_its_number(emits: tuple[str, ...]) -> None:
    """Tables, drawings and headings alike; a key without a label stays what it is."""
    shown = render(answer("eth0", "wlan0", None, emits=emits))
    assert "eth0" in shown
    assert "wlan0" in shown
    assert "7:3" in shown
    assert "7:1" not in shown
    assert "7:2" not in shown


def test_text_shows_the_key_behind_a_label_that_another_key_has_too() -> None:
    """No two keys read alike, and the one that is alone in its label reads short."""
    shown = render(answer("eth0", "eth0", "lo"))
    assert "eth0 (7:1)" in shown
    assert "eth0 (7:2)" in shown
    assert "7:3" not in shown
    keys = [({"task": 8, "cpu": 0}, {"task": "sh"}), ({"task": 9, "cpu": 1}, {"task": "sh"})]
    assert render_labels([*keys, ({"task": 8, "cpu": 1}, {"task": "sh"})]) == [
        {"task": "sh (8)", "cpu": 0},
        {"task": "sh (9)", "cpu": 1},
        {"task": "sh (8)", "cpu": 1},
    ]
    assert render_labels([({"task": 8}, {"task": "9"}), ({"task": 9}, {})]) == [{"task": "9 (8)"}, {"task": 9}]


def test_rows_within_a_series_are_labelled_as_series_are() -> None:
    """A ranking and the rows of an attribute carry the label beside the key, and text shows it in its place."""
    batch = make_batch([4, 1, 2], keys={"task": [11, 12, 11]}, comm=["old", "sh", "new"])
    ranked = ask("topk@task", batch, labels={"task": "comm"})
    assert [(row["key"], row.get("labels")) for row in ranked["rows"]] == [
        ({"task": 11}, {"task": "new"}),
        ({"task": 12}, {"task": "sh"}),
    ]
    for emit in ("summary@task", "hist@task"):
        rows = ask(emit, batch, labels={"task": "comm"})["rows"]
        assert [(row["attr"], row["label"]) for row in rows] == [(11, "new"), (12, "sh")]
        shown = render(make_result(batch, (emit,), labels={"task": "comm"}))
        assert "new" in shown
        assert " 11 " not in shown
        assert " 11:" not in shown
        assert " label" not in shown
    assert all("labels" not in row for row in ask("topk@task", batch)["rows"])


def test_a_spread_over_runs_is_labelled() -> None:
    """A series is called in the spread what the last run that had it called it."""
    repeat = compute_repeat([(1, answer("eth0", "lo")), (2, answer("lan"))])
    assert repeat is not None
    assert [one.labels for one in repeat.series] == [{"iface": "lan"}, {"iface": "lo"}]
    shown = "\n".join(render_spread(repeat, answer("lan"), STYLE))
    assert "lan" in shown
    assert "lo" in shown
    assert "7:" not in shown
    plain = compute_plain(make_document(attrs.evolve(answer("lan"), repeat=repeat)))
    assert [one["labels"] for one in plain["results"][0]["repeat"]["series"]] == [{"iface": "lan"}, {"iface": "lo"}]


def test_a_collector_is_told_to_read_what_labels_a_key() -> None:
    """What labels a key of the answer can be shown, so that it is read; what labels nothing of it need not be."""
    assert make_resolved(labels={"task": "comm"}).shows("comm")
    assert not make_resolved().shows("comm")
