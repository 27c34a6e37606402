"""Every mechanism of the catalog on its family's reference workload, beside a bare run.

`pytest tests/bench/test_bench_bands.py --rewrite-bands` writes the record anew, on a machine that does nothing else.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bands.measuring import Bench
from bands.table import Measured, Row, find_band, iter_disagreements, write_record
from omn_kernel.privileges import read_privileges

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry

pytestmark = pytest.mark.timeout(3600)


@pytest.mark.spec("BEN-2")
def test_mechanisms_cost_what_they_declare(
    catalog: Catalog, registry: Registry, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each in every mode; what cannot be measured here says why."""
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    rows: list[Row] = []
    print()
    for row in Bench(catalog, registry, tmp_path).measure_all():
        rows.append(row)
        print(render(row), flush=True)
    if request.config.getoption("--rewrite-bands"):
        write_record(rows)
    chains = {entry.id: entry.chain for entry in catalog.entries.values()}
    measured = {row.source: chains[row.source] for row in rows}
    assert list(iter_disagreements(measured, rows)) == []


def render(row: Row) -> str:
    """Return a row as a line."""
    if not isinstance(row, Measured):
        return f"{row.source} {row.backend}: {row.reason}"
    off = f" +- {row.spread:.2g}" if row.spread else ""
    return (
        f"{row.source} {row.backend}, {row.mode}, {row.target}: {find_band(row.least)}, {row.own:.3g} % omn's own, "
        f"{row.inside:.3g}{off} % inside"
    )
