"""The page on what mechanisms cost says what was recorded, and the catalog declares it."""

from __future__ import annotations

import importlib.util

import pytest
from bands.table import compute_middle, iter_disagreements, read_record
from manual import DOCS

from omn_core.model.catalog import Catalog


def test_the_page_is_the_one_that_the_record_makes() -> None:
    """Whoever measures anew writes the page anew."""
    spec = importlib.util.spec_from_file_location("generate_bench", DOCS / "generate_bench.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.render_page(read_record())
    assert (DOCS / "bench.md").read_text() == made, "it is stale: run `python docs/generate_bench.py`"


@pytest.mark.spec("CST-4", "BEN-2")
def test_the_bands_of_the_catalog_are_those_that_were_measured(catalog: Catalog) -> None:
    """No mechanism declares less than it cost, or two bands more; and the record has each that is collected."""
    held = {row.source.partition(".")[0] for row in read_record()}
    chains = {entry.id: entry.chain for entry in catalog.entries.values() if entry.family in held}
    assert list(iter_disagreements(chains, read_record())) == []


def test_a_median_is_as_sure_as_its_signs() -> None:
    """Of seven the smallest and the largest hold the true one between them with 95 %; of fourteen the third ones do."""
    assert compute_middle([float(value) for value in range(7)]) == (3.0, 3.0)
    assert compute_middle([float(value) for value in range(14)]) == (6.5, 4.5)
