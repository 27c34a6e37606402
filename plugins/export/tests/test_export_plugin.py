"""The plugin as a whole: what it registers, and what a request's emits are held to."""

from __future__ import annotations

import pytest
from omn_export.plugin import omn_formats

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution


@pytest.mark.spec("PLG-3", "PLG-9")
def test_the_distribution_keeps_every_line_of_the_contracts(registry: Registry, catalog: Catalog) -> None:
    """Import cost, rows, public names: nothing is broken."""
    assert check_distribution("omn-export", registry, catalog).broken == ()


@pytest.mark.spec("FMT-1")
def test_formats_of_stacks_refuse_anything_else_first() -> None:
    """pprof and html draw stacks alone and say so; a trace holds every answer."""
    assert {row.name: row.emits for row in omn_formats()} == {"pprof": ("stack",), "html": ("stack",), "perfetto": ()}
