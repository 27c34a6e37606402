"""The pages of what omn stands in for are those that the pairs and the recorded verdicts make."""

from __future__ import annotations

import re

import attrs
import pytest
from manual import DOCS
from reference.load import Without, load_families, load_pairs
from reference.model import Asked, Pair, Read, Step, Tolerance, Tool
from reference.page import PAGES, render_pages
from reference.record import read_record

pytestmark = pytest.mark.spec("BEN-1")


def test_the_pages_are_those_the_pairs_make() -> None:
    """Every page is what is made now, and there is no other."""
    made = render_pages(load_families(), read_record())
    written = {path.name: path.read_text() for path in (DOCS / "replaces").glob("*.md")}
    assert DOCS / "replaces" == PAGES
    assert written.keys() == made.keys()
    for name, text in made.items():
        stale = f"docs/replaces/{name} is stale: run `PYTHONPATH=tests/support python -m reference.page`"
        assert written[name] == text, stale


@pytest.mark.parametrize("kind", [Pair, Asked, Read, Step, Tool, Tolerance, Without])
def test_every_field_of_a_pair_is_in_the_manual(kind: type[attrs.AttrsInstance]) -> None:
    """As a file spells it."""
    page = (DOCS / "reference-pairs.md").read_text()
    assert {field.name for field in attrs.fields(kind) if not re.search(rf"`{field.name}\b", page)} == set()


def test_a_record_is_of_pairs_that_there_are_and_none_failed() -> None:
    """A pair that went takes its verdict with it, and what is recorded is no failure."""
    record = read_record()
    assert record.keys() <= {pair.id for pair in load_pairs()}
    assert "FAIL" not in {one["state"] for one in record.values()}
    assert len([one for one in record.values() if one["state"] == "PASS"]) >= 25


def test_every_pair_has_its_row_with_what_it_allows() -> None:
    """Each family's page names each of its pairs' tool and request."""
    for family in load_families():
        page = (PAGES / f"{family.name}.md").read_text()
        for pair in family.pairs:
            assert f"| {pair.use} | `{pair.tool.title}` | `omn {pair.source} -m {pair.asked.mode}" in page, pair.id
        for one in family.without:
            assert f"| {one.use} | `{one.title}` | {one.reason} |" in page, one.title
