"""Waits, wakeups and switches held one by one to what a program counts of its own, and the kernel of its threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from counted_waits import COUNTED, compile_waits, hold_to_account
from omn_kernel.btf.kernel import read_kernel_btf

from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry

ROUNDS = 1_000

pytestmark = pytest.mark.usefixtures("loads_typed_programs")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled once."""
    return compile_waits(tmp_path_factory.mktemp("waits"))


@pytest.mark.spec("SRC-2")
@pytest.mark.parametrize(("source", "backend"), COUNTED)
def test_what_is_seen_and_what_is_lost_is_all_there_was(
    registry: Registry, catalog: Catalog, program: Path, source: str, backend: str
) -> None:
    """Exactly; what the kernel passed over may be of anybody's events."""
    if source == "sched.lock" and read_kernel_btf("/").find_tracepoint("contention_begin") is None:
        pytest.skip("this kernel has no tracepoint contention_begin")
    held = hold_to_account(registry, catalog, program, source, backend, ROUNDS)
    assert held.made >= ROUNDS
    assert held.is_whole, held
