"""The memory family keeps the contracts, and its catalog is the one it collects."""

from __future__ import annotations

import pytest

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.testing.conformance import check_distribution


@pytest.mark.spec("PLG-3", "PLG-9", "CAT-1", "CAT-2")
@pytest.mark.parametrize("distribution", ["omn-mem", "omn-kernel"])
def test_the_distribution_keeps_every_line_of_the_contracts(
    registry: Registry, catalog: Catalog, distribution: str
) -> None:
    """Import cost, rows, factories, catalog, probes, README: nothing is broken."""
    assert check_distribution(distribution, registry, catalog).broken == ()


@pytest.mark.spec("CAT-1", "CAT-8")
def test_every_source_of_the_family_is_declared(catalog: Catalog) -> None:
    """Those that files can answer, and those that programs do."""
    names = "rss pss uss meminfo pressure cgroup swap thp slab maps numa faults oom page_alloc reclaim compaction"
    declared = {name for name in catalog.entries if name.startswith("mem.")}
    assert {f"mem.{name}" for name in names.split()} <= declared


def test_what_nobody_collects_says_why(catalog: Catalog, registry: Registry) -> None:
    """A backend of the family without a collector carries its reason."""
    for name, entry in catalog.entries.items():
        for backend in entry.chain if name.startswith("mem.") else ():
            collected = (name, backend.id) in registry.collectors
            assert collected is (backend.uncollected is None), (name, backend.id)


@pytest.mark.spec("SRC-1")
def test_pressure_is_named_alike_wherever_it_is_kept(catalog: Catalog) -> None:
    """The attributes of a pressure source are the same in every family that has one."""
    attributes = [dict(entry.attributes) for name, entry in catalog.entries.items() if name.endswith(".pressure")]
    assert attributes
    assert all(other == attributes[0] for other in attributes)
