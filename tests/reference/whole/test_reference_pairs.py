"""Every reference pair: `tox -e reference`. One alone: `tox -e reference -- tests/reference/whole -k mem-rss-ps`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reference.load import load_pairs
from reference.model import Pair
from reference.runner import run_pair

from omn_core.testing.fixtures import Command


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of every pair, of the families that ship or of the folder that `--pairs` names."""
    folder = metafunc.config.getoption("--pairs")
    pairs = load_pairs() if folder is None else load_pairs(Path(folder))
    metafunc.parametrize("pair", pairs, ids=[pair.id for pair in pairs])


@pytest.mark.spec("BEN-1")
def test_a_pair_agrees(pair: Pair, omn: Command, tmp_path: Path, tell: Any) -> None:
    """omn's figure is the tool's, within what the pair allows."""
    tell(run_pair(pair, omn, tmp_path / "pair"))
