"""A hundred thousand waits, wakeups and switches under load, held one by one to who counted them."""

from __future__ import annotations

from pathlib import Path

import pytest
from counted_waits import COUNTED, compile_waits, hold_to_account

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry

ROUNDS, PARTS, LOOPS = 10_000, 10, 6


@pytest.mark.usefixtures("loads_typed_programs")
@pytest.mark.parametrize(("source", "backend"), COUNTED)
def test_a_hundred_thousand_are_all_told_under_load(
    registry: Registry, catalog: Catalog, tmp_path: Path, source: str, backend: str
) -> None:
    """Beside six threads that keep the cpus: what is seen and what is said to be lost is what was made."""
    held = hold_to_account(registry, catalog, compile_waits(tmp_path), source, backend, ROUNDS, parts=PARTS, busy=LOOPS)
    print(
        f"\n{source} by {backend}: {held.seen} of {held.made} seen, {held.losses.dropped} dropped, "
        f"{held.losses.skipped} runs passed over"
    )
    assert held.made >= PARTS * ROUNDS
    assert held.is_whole, held.losses.reasons
