"""What recording costs while a coding agent works: the recorder's own processor time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from agent_recording import Bench

SCRIPT = """
    agent = Claude('s'); agent.start(); agent.prompt()
    say('begin')
    began = time.monotonic()
    for number in range(50):
        agent.begin(f"t{number}")
        time.sleep(max(0, began + number / 5 + 0.1 - time.monotonic()))
        agent.finish(f"t{number}")
        time.sleep(max(0, began + number / 5 + 0.2 - time.monotonic()))
    say('end'); wait()
    agent.end()
"""
"""Five tools a second for ten seconds: two hooks and two lines each."""


def read_cpu_s(pid: int) -> float:
    """Return a process's processor time to the nanosecond: /proc/<pid>/schedstat."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def test_recording_takes_under_a_percent_of_a_cpu(omn: Any, tmp_path: Path) -> None:
    """Between two words of the harness's the recorder uses less than a hundredth of one cpu."""
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel keeps no account of processor time in nanoseconds")
    bench = Bench(omn, tmp_path)
    bench.prepare()
    running = bench.start(SCRIPT)
    running.expect("begin")
    began_s, before_s = time.monotonic(), read_cpu_s(running.process.pid)
    running.expect("end")
    share = (read_cpu_s(running.process.pid) - before_s) / (time.monotonic() - began_s)
    running.go_on()
    assert running.finish().code == 0
    print(f"\nrecording 20 events a second: {share:.2%} of a cpu (at most 1 %)")
    assert share < 0.01
