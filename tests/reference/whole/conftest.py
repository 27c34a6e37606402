"""The options of a run of every reference pair."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference.kept import VERDICTS
from reference.record import write_record


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    parser.addoption("--pairs", default=None, help="the folder of another family's pairs")
    parser.addoption(
        "--record", default=None, help="write the verdicts to this file, beside those it has of other pairs"
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the verdicts down where a file was named."""
    place = session.config.getoption("--record")
    if place is not None:
        write_record(Path(place), session.config.stash.get(VERDICTS, []))
