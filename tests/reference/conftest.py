"""The verdicts of a run of reference pairs, printed at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

VERDICT = "verdict"
"""The property of a test's report that holds its pair's verdict."""


def iter_verdicts(terminalreporter: Any) -> Iterator[str]:
    """Yield the verdicts of the run, in the order of the pairs."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            yield from (value for name, value in getattr(report, "user_properties", ()) if name == VERDICT)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print each pair's verdict, and how many there are of each."""
    verdicts = list(dict.fromkeys(iter_verdicts(terminalreporter)))
    if not verdicts:
        return
    terminalreporter.section("reference pairs")
    for verdict in sorted(verdicts, key=lambda text: text.split()[1:]):
        terminalreporter.write_line(verdict)
    words = [verdict.split()[0] for verdict in verdicts]
    counts = [f"{words.count(word)} {word}" for word in ("PASS", "KNOWN", "SKIP", "FAIL") if word in words]
    terminalreporter.write_line(f"reference pairs: {', '.join(counts)}")


@pytest.fixture
def tell(record_property: Any) -> Any:
    """The function that keeps a verdict for the summary, and passes, skips or fails by it."""

    def keep(verdict: Any) -> None:
        record_property(VERDICT, str(verdict))
        if verdict.state.value == "SKIP":
            pytest.skip(verdict.reason)
        assert verdict.state.value in ("PASS", "KNOWN"), str(verdict)

    return keep
