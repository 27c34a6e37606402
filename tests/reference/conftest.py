"""The verdicts of a run of reference pairs, printed at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from reference.kept import VERDICTS
from reference.verdict import State, Verdict


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[Verdict], None]:
    """The function that keeps a verdict for the summary, and passes, skips or fails by it."""
    kept = pytestconfig.stash.setdefault(VERDICTS, [])

    def keep(verdict: Verdict) -> None:
        kept.append(verdict)
        if verdict.state is State.SKIP:
            pytest.skip(str(verdict.reason))
        assert verdict.state is not State.FAIL, str(verdict)

    return keep


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print each pair's verdict, and how many there are of each."""
    verdicts = config.stash.get(VERDICTS, [])
    if not verdicts:
        return
    terminalreporter.section("reference pairs")
    for verdict in verdicts:
        terminalreporter.write_line(str(verdict))
    states = [verdict.state for verdict in verdicts]
    counts = [f"{states.count(state)} {state.value}" for state in State if state in states]
    terminalreporter.write_line(f"reference pairs: {', '.join(counts)}")
