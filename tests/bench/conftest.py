"""What the benches can be told."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to write the record of the bands anew."""
    parser.addoption("--rewrite-bands", action="store_true", help="Write what is measured into tests/bench/bands.yaml.")
