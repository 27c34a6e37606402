"""speedscope opens what omn writes: its own importer, in a browser, asked for what it read."""

from __future__ import annotations

import base64
import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Page, open_browser
from shapes import make_document
from stack_runs import make_nasty_stacks, make_row, make_stack_result

from omn_core.format.as_chrome import CHROME
from omn_core.format.as_folded import FOLDED, fold_label
from omn_core.format.as_speedscope import SPEEDSCOPE
from omn_core.model.result import Document
from omn_core.model.style import TextStyle
from omn_core.names import escape_bytes

pytestmark = pytest.mark.spec("FMT-1", "FMT-2")

PACKAGE = Path(os.environ.get("SPEEDSCOPE", "speedscope"))
"""The folder of the npm package speedscope."""

EXPORT = """
new Promise((done) => {
  let saved = null;
  URL.createObjectURL = (blob) => { saved = blob; return "#"; };
  const find = (text) => [...document.querySelectorAll("div")].filter((one) => one.textContent.includes(text)).pop();
  const look = () => {
    if (find("Something went wrong")) return done(null);
    const button = find("Export");
    if (saved === null && button !== undefined) button.click();
    if (saved !== null) saved.text().then(done); else setTimeout(look, 20);
  };
  look();
})
"""
"""Presses speedscope's button that saves what it has read, and returns the file's text; null where it read nothing."""

Profile = tuple[str, str, Counter[tuple[str, ...]]]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser, shared by the tests of this module."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed here")
    with open_browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def read(page: Page, folder: Path, encoder: Any, document: Document, name: str) -> list[Profile]:
    """Return the profiles that speedscope reads of a file: each one's name, unit, and stacks with their weights."""
    stream = io.BytesIO()
    encoder.write(document, stream, TextStyle())
    content = base64.b64encode(stream.getvalue()).decode()
    loading = folder / "load.js"
    loading.write_text(f"speedscope.loadFileFromBase64({json.dumps(name)}, {json.dumps(content)})")
    page.open(PACKAGE / "dist" / "release" / "index.html", f"#localProfilePath={loading}")
    saved = page.evaluate(EXPORT)
    assert saved is not None, page.errors
    whole = json.loads(saved)
    names = [frame["name"] for frame in whole["shared"]["frames"]]
    return [(one["name"], one["unit"], sum_stacks(one, names)) for one in whole["profiles"]]


def sum_stacks(profile: dict[str, Any], names: list[str]) -> Counter[tuple[str, ...]]:
    """Return how long each stack was the open one."""
    found: Counter[tuple[str, ...]] = Counter()
    path: list[str] = []
    before = profile["startValue"]
    for event in profile["events"]:
        if event["at"] > before:
            found[tuple(path)] += round(event["at"] - before, 3)
        before = event["at"]
        if event["type"] == "O":
            path.append(names[event["frame"]])
        else:
            assert path.pop() == names[event["frame"]]
    return found


def expect(document: Document, spell: Any) -> Counter[tuple[str, ...]]:
    """Return the stacks of a document's one series, each label as a format spells it."""
    found: Counter[tuple[str, ...]] = Counter()
    for row in document.results[0].series[0].emits["stack"]["rows"]:
        found[tuple(map(spell, reversed(row["frames"])))] += row["weight"]
    return found


def test_speedscope_reads_folded_text(page: Page, tmp_path: Path) -> None:
    """Every stack, whatever the names hold."""
    document = make_nasty_stacks()
    ((_, unit, found),) = read(page, tmp_path, FOLDED, document, "run.folded")
    assert (unit, found) == ("none", expect(document, fold_label))


def test_speedscope_reads_its_own_format(page: Page, tmp_path: Path) -> None:
    """Every stack with its unit, whatever the names hold, and a profile for each series."""
    document = make_nasty_stacks()
    ((name, unit, found),) = read(page, tmp_path, SPEEDSCOPE, document, "run.speedscope.json")
    assert (name, unit) == ("cpu.profile", "nanoseconds")
    assert found == expect(document, escape_bytes)
    threads = make_stack_result({"7": [make_row(["f"], 2)], "8": [make_row(["down"] * 1000, 3)]})
    profiles = read(page, tmp_path, SPEEDSCOPE, make_document(threads), "run.speedscope.json")
    assert [(name, sum(found.values())) for name, _, found in profiles] == [
        ("cpu.profile task 7", 2),
        ("cpu.profile task 8", 3),
    ]


def test_speedscope_reads_a_trace_of_chromes(page: Page, tmp_path: Path) -> None:
    """The slices of weights are stacks of one function by one name, as long as they weigh."""
    document = make_nasty_stacks()
    ((name, unit, found),) = read(page, tmp_path, CHROME, document, "run.json")
    assert "stacks by weight, not by time (ns)" in name
    assert unit == "microseconds"
    bare = Counter({stack[1:]: round(weight * 1000) for stack, weight in found.items()})
    assert bare == expect(document, lambda label: escape_bytes(label) or "(unnamed)")  # its own word for no name
