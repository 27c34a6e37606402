"""The skips that are expected where a machine lacks what a test needs."""

from __future__ import annotations

import fnmatch
from pathlib import Path

EXPECTED = Path(__file__).parents[1] / "expected_skips.txt"
"""The skips that are expected, one a line: a pattern of test ids, two bars, a part of the reason."""


def read_expected() -> list[tuple[str, str]]:
    """Return (pattern of test ids, part of the reason) of every expected skip."""
    lines = [line.strip() for line in EXPECTED.read_text().splitlines()]
    return [
        (pattern.strip(), reason.strip())
        for pattern, _, reason in (line.partition("||") for line in lines if line and not line.startswith("#"))
    ]


def is_expected(identifier: str, reason: str) -> bool:
    """Whether the list names this skip, by its test and by what the machine said."""
    return any(fnmatch.fnmatch(identifier, pattern) and part in reason for pattern, part in read_expected())
