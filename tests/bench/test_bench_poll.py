"""What polling many processes costs, against pidstat on the same ones in the same run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

PROCESSES = 500
READINGS = 10
INTERVAL_S = 1


@pytest.fixture
def herd() -> Iterator[list[int]]:
    """Five hundred processes that wait."""
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(PROCESSES)]
    yield [child.pid for child in children]
    for child in children:
        child.kill()
        child.wait()


def spend(argv: list[str], environment: dict[str, str] | None = None) -> tuple[float, bytes]:
    """Return the cpu seconds a command spent, its children's included, and what it wrote."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(argv, stdout=subprocess.PIPE, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime), ran.stdout


def test_polling_five_hundred_resident_sets_costs_no_more_than_pidstat(omn: Any, herd: list[int]) -> None:
    """The window's cpu per sample, omn's own account of it held to the kernel's, against pidstat -r less its start."""
    if shutil.which("pidstat") is None:
        pytest.skip("pidstat (sysstat) is not installed here")
    pids = ",".join(map(str, herd))
    pidstat = ["pidstat", "-r", "-p", pids, str(INTERVAL_S)]
    long, _ = spend([*pidstat, str(READINGS)], {**os.environ, "LC_ALL": "C"})
    short, _ = spend([*pidstat, "1"], {**os.environ, "LC_ALL": "C"})
    theirs = (long - short) / ((READINGS - 1) * PROCESSES)
    argv = [*omn.argv, "mem.rss", "--pid", pids, "--format", "json", "--interval", f"{INTERVAL_S}s", "-d"]
    whole, written = spend([*argv, f"{READINGS}s"], omn.environment())
    document = json.loads(written)
    samples = document["results"][0]["events_seen"]
    assert samples >= READINGS * PROCESSES
    window = document["cost"]["tool"]["window_cpu_ns"] / 1e9
    assert window <= whole
    ours = window / samples
    print(f"\na sample: omn {ours * 1e6:.2f} us, pidstat {theirs * 1e6:.2f} us of cpu ({ours / theirs:.2f}x)")
    assert ours <= theirs
