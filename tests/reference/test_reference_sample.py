"""The quick reference pairs, run wherever the tests are; `tox -e reference` runs every one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reference.load import load_pairs
from reference.model import Pair
from reference.runner import run_pair

from omn_core.testing.fixtures import Command

SAMPLE = [pair for pair in load_pairs() if pair.sample]


@pytest.mark.spec("BEN-1")
@pytest.mark.parametrize("pair", SAMPLE, ids=lambda pair: pair.id)
def test_a_pair_of_the_sample_agrees(pair: Pair, omn: Command, tmp_path: Path, tell: Any) -> None:
    """omn's figure is the tool's, within what the pair allows."""
    tell(run_pair(pair, omn, tmp_path / "pair"))
