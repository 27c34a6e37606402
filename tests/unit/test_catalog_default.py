"""A family's default in its catalog: what loads, and every rule with the place of what breaks it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from omn_core.catalog.load import load_catalog
from omn_core.errors import CatalogError
from omn_core.model.request import EmitSpec, Request

CHAIN = (
    "{id: first, requires: ['lab:available'], cost: med}\n"
    "{id: second, requires: ['lab:available'], cost: low, degrades: x, modes: [poll], emits: [summary, rate], keys: []}"
)
ASKED = "{source: lab.depth, mode: poll, emits: [summary], interval: 1s}"


def write_default(**bands: str) -> str:
    """Return the text of a default of the family `lab`."""
    return "- default: lab\n" + "".join(f"  {band}: {text}\n" for band, text in bands.items())


@pytest.mark.spec("REQ-12")
def test_a_default_loads_whole_and_from_the_cache(laboratory: Any, entry_text: Any) -> None:
    """Every field that a composed request states reaches the model, cheapest band first, cold and warm alike."""
    med = (
        "[{source: lab.depth, mode: count, emits: [count]}, {source: lab.depth, mode: poll, emits: [summary@comm,"
        " 'topk:3@comm'], keys: [task], interval: 250ms, value: depth, filter: 'depth > 3'}]"
    )
    text = entry_text(None, CHAIN) + write_default(med=med, low=f"[{ASKED}]")
    laboratory.install_lab(text)
    for _ in range(2):
        _, catalog = laboratory.load()
        default = catalog.defaults["lab"]
        assert list(default.bands) == ["low", "med"]
        assert default.bands["low"] == (
            Request("lab.depth", "poll", (EmitSpec("summary"),), interval_ns=1_000_000_000),
        )
        assert default.bands["med"][1] == Request(
            "lab.depth",
            "poll",
            (EmitSpec("summary", None, "comm"), EmitSpec("topk", 3, "comm")),
            ("task",),
            filter="depth > 3",
            value="depth",
            interval_ns=250_000_000,
        )
        assert (default.none, default.line) == (None, len(entry_text(None, CHAIN).splitlines()) + 1)
        assert list(catalog.entries) == sorted(catalog.entries)
        assert "lab.depth" in catalog.entries


@pytest.mark.spec("REQ-12")
def test_a_family_may_say_that_it_has_no_default(laboratory: Any, entry_text: Any) -> None:
    """`none` is its reason, and there are no bands."""
    laboratory.install_lab(entry_text() + write_default(none="reading it needs a probe inside the program"))
    _, catalog = laboratory.load()
    assert dict(catalog.defaults["lab"].bands) == {}
    assert catalog.defaults["lab"].none == "reading it needs a probe inside the program"


BROKEN = [
    ({"low": "[]"}, "the band low composes nothing; leave it out"),
    ({}, "a default composes at least one band (low, med, high), or says in 'none' why it does not"),
    ({"none": "''"}, "a family without a default says why"),
    ({"none": "because", "low": f"[{ASKED}]"}, "a default that composes something has no 'none', and this one has low"),
    ({"free": f"[{ASKED}]"}, "there is no field 'free' here; the fields are default, low, med, high, none"),
    ({"low": "[{source: mem.rss, mode: poll, emits: [summary]}]"}, "'mem.rss' is none of 'lab'"),
    ({"low": "[{source: lab.dept, mode: poll, emits: [summary]}]"}, "'lab.dept' is unknown; did you mean 'lab.depth'?"),
    ({"low": "[{source: lab.depth, mode: pole, emits: [summary]}]"}, "lab.depth has no mode 'pole'"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [count]}]"}, "lab.depth has no emit 'count' in mode poll"),
    ({"low": "[{source: lab.depth, mode: poll, emits: []}]"}, "lab.depth is asked for nothing"),
    ({"low": "[{source: lab.depth, mode: poll, emits: ['hist:3']}]"}, "emit hist takes no number"),
    ({"low": "[{source: lab.depth, mode: poll, emits: ['summary@']}]"}, "emit 'summary@' is not NAME"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary@pid]}]"}, "lab.depth has no 'pid' to divide summary by"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary], keys: [dev]}]"}, "lab.depth has no key 'dev'"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary], value: comm}]"}, "lab.depth measures no 'comm'"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [rate], value: share}]"}, "emit rate needs values that add up"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary], filter: 'x > 1'}]"}, "lab.depth has no field 'x'"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary], interval: soon}]"}, "its interval: 'soon' is no"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary], interval: 5}]"}, "a text belongs here, not 5"),
    ({"med": "[{source: lab.depth, mode: count, emits: [count], interval: 1s}]"}, "means something in mode poll alone"),
    ({"low": "[{source: lab.depth, emits: [summary]}]"}, "the field 'mode' is missing"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary], target: {pid: 1}}]"}, "there is no field 'target'"),
    ({"low": "[{source: lab.depth, mode: count, emits: [count]}]"}, "costs med in mode count at the least (first)"),
    ({"low": "[{source: lab.depth, mode: poll, emits: [summary], keys: [task]}]"}, "more than the band low"),
    ({"low": f"[{ASKED}, {ASKED}]"}, "lab.depth is asked the same way twice in the band low"),
]


@pytest.mark.spec("REQ-12", "REQ-16")
@pytest.mark.parametrize(("bands", "said"), BROKEN)
def test_a_broken_default_is_refused_by_file_and_line(
    laboratory: Any, record_of: Any, entry_text: Any, bands: dict[str, str], said: str
) -> None:
    """Each rule, broken alone, names itself and its place, and takes the plugin's sources with it and no others."""
    entry = entry_text(None, CHAIN)
    laboratory.install_lab(entry + write_default(**bands))
    registry, catalog = laboratory.load()
    record = record_of(registry, "lab")
    assert record.state == "failed"
    assert said in record.reason
    place = re.search(r"omn_lab/catalog\.yaml:(\d+): ", record.reason)
    assert place is not None
    start = len(entry.splitlines()) + 1
    assert int(place[1]) in (start, start + 1, start + 2)
    assert "lab.depth" not in catalog.entries
    assert "lab" not in catalog.defaults


@pytest.mark.spec("REQ-16")
def test_a_default_is_its_own_familys_and_the_only_one(laboratory: Any, record_of: Any, entry_text: Any) -> None:
    """Another family's default, one of a family without a source and a second one are refused where they stand."""
    own = write_default(low=f"[{ASKED}]")
    laboratory.install_lab(entry_text() + own.replace("default: lab", "default: mem"))
    assert "'mem' is not this plugin's family 'lab'" in record_of(laboratory.load()[0], "lab").reason
    laboratory.install_lab(own)
    assert "the family 'lab' has no source here" in record_of(laboratory.load()[0], "lab").reason
    laboratory.install_lab(entry_text() + own + own)
    lines = len((entry_text() + own).splitlines())
    first = len(entry_text().splitlines()) + 1
    reason = record_of(laboratory.load()[0], "lab").reason
    assert f"catalog.yaml:{lines + 1}: default of lab: it is in omn_lab/catalog.yaml:{first} already" in reason


@pytest.mark.spec("CAT-5", "REQ-12")
def test_the_files_of_a_folder_may_stand_apart(laboratory: Any, entry_text: Any, tmp_path: Path) -> None:
    """A default may ask a source of another file of its folder, and what is wrong with it raises with its place."""
    folder = tmp_path / "folder"
    folder.mkdir()
    laboratory.install_lab(entry_text())
    registry = laboratory.discover()
    (folder / "sources.yaml").write_text(entry_text())
    (folder / "lazy.yaml").write_text(write_default(low=f"[{ASKED}]"))
    assert [one.source for one in load_catalog(registry, folder).defaults["lab"].bands["low"]] == ["lab.depth"]
    (folder / "lazy.yaml").write_text("\n" + write_default(low="[{source: lab.death, mode: poll, emits: [summary]}]"))
    with pytest.raises(CatalogError, match=r"lazy\.yaml:3: default of lab: source 'lab.death' is unknown") as caught:
        load_catalog(registry, folder)
    assert caught.value.line == 3
