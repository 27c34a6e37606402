"""What every test of the tree shares, the families' included: the published fixtures, and the gate on skips."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["omn_core.testing.fixtures"]

# A `python3 -c` of a test would find the tree's own packages before the installed ones, which are what is tested.
os.environ.setdefault("PYTHONSAFEPATH", "1")

EXPECTED = Path(__file__).parent / "tests" / "expected_skips.txt"
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


class SkipGate:
    """Fails the run when a test skips for a reason that nobody expected."""

    def __init__(self) -> None:
        self.unexpected: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep every skip that the list does not name."""
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not is_expected(report.nodeid, reason):
            self.unexpected.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a run with an unexpected skip into a failed one."""
        if self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name them."""
        for line in self.unexpected:
            terminalreporter.write_line(f"UNEXPECTED SKIP {line}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Set the gate up."""
    config.pluginmanager.register(SkipGate(), "omn-skip-gate")
