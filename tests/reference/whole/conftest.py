"""The options of a run of every reference pair."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    parser.addoption("--pairs", default=None, help="the folder of another family's pairs")
