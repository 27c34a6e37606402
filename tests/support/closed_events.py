"""Machines that open no perf events for the user who runs the tests."""

from __future__ import annotations

import pytest


def hold_served(code: int, stderr: str) -> None:
    """Skip the test where omn refused because perf events are closed to this user; else hold the run to have served.

    A run that failed in any other way ends with the same code, and is no reason to skip.
    """
    if code == 1 and "kernel.perf_event_paranoid is" in stderr:
        pytest.skip(f"perf events are closed to this user: {stderr}")
    assert code == 0, stderr
