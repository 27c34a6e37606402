"""The verdicts of a run of reference pairs, printed at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from reference.kept import VERDICTS
from reference.verdict import State, Verdict

PROPERTY = "reference pair"


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[Verdict], None]:
    """The function that keeps a verdict for the summary, and passes, skips or fails by it."""
    kept = request.config.stash.setdefault(VERDICTS, [])

    def keep(verdict: Verdict) -> None:
        kept.append(verdict)
        # The summary may be another process's than the tests.
        request.node.user_properties.append((PROPERTY, [verdict.state.value, str(verdict)]))
        if verdict.state is State.SKIP:
            pytest.skip(str(verdict.reason))
        assert verdict.state is not State.FAIL, str(verdict)

    return keep


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print each pair's verdict, and how many there are of each."""
    reports = [report for kind in ("passed", "failed", "skipped") for report in terminalreporter.getreports(kind)]
    verdicts = [
        value
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    if not verdicts:
        return
    terminalreporter.section("reference pairs")
    for _, line in verdicts:
        terminalreporter.write_line(line)
    states = [state for state, _ in verdicts]
    counts = [f"{states.count(state.value)} {state.value}" for state in State if state.value in states]
    terminalreporter.write_line(f"reference pairs: {', '.join(counts)}")
