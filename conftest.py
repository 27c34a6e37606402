"""What every test of the tree shares, the families' included: the published fixtures, and gates on skips and reruns."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from skips import is_expected

pytest_plugins = ["omn_core.testing.fixtures", "kernel_programs"]

# How long an example takes is the machine's other work's as much as its own.
settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")

# A `python3 -c` of a test would find the tree's own packages before the installed ones, which are what is tested.
os.environ.setdefault("PYTHONSAFEPATH", "1")


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


class RerunGate:
    """Says what every test that was run again failed with first, and fails the run when there were too many."""

    most = 3

    def __init__(self) -> None:
        self.failed: dict[str, pytest.TestReport] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first failure of every test that is run again."""
        if report.outcome == "rerun":
            self.failed.setdefault(report.nodeid, report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a run with too many of them into a failed one."""
        if len(self.failed) > self.most and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show how each failed, then name them."""
        for nodeid, report in self.failed.items():
            terminalreporter.write_sep("_", f"{nodeid}, the first time")
            terminalreporter.write_line(report.longreprtext)
        for nodeid, report in self.failed.items():
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = report.longreprtext.rpartition("\n")[2] if crash is None else crash.message
            terminalreporter.write_line(f"RERUN {nodeid}: {' '.join(reason.split())[:300]}", yellow=True)
        if len(self.failed) > self.most:
            said = f"{len(self.failed)} tests were run again, more than the {self.most} that a run may have"
            terminalreporter.write_line(said, red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Set the gates up."""
    config.pluginmanager.register(SkipGate(), "omn-skip-gate")
    config.pluginmanager.register(RerunGate(), "omn-rerun-gate")
