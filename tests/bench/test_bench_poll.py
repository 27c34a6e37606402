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


def spend_in_window(omn: Any, argv: list[str]) -> tuple[float, int]:
    """Run omn for the readings, and return its cpu seconds in the window, held to the kernel's account, and samples."""
    command = [*omn.argv, *argv, "--format", "json", "--interval", f"{INTERVAL_S}s", "-d", f"{READINGS}s"]
    whole, written = spend(command, omn.environment())
    document = json.loads(written)
    window = document["cost"]["tool"]["window_cpu_ns"] / 1e9
    assert window <= whole
    return window, document["results"][0]["events_seen"]


def test_the_process_table_costs_no_more_than_pidstat(omn: Any, herd: list[int]) -> None:
    """proc.tasks of the whole machine beside the herd: the window's cpu per process and tick, against pidstat -u."""
    if shutil.which("pidstat") is None:
        pytest.skip("pidstat (sysstat) is not installed here")
    count = sum(name.isdigit() for name in os.listdir("/proc"))
    environment = {**os.environ, "LC_ALL": "C"}
    long, _ = spend(["pidstat", "-u", "-p", "ALL", str(INTERVAL_S), str(READINGS)], environment)
    short, _ = spend(["pidstat", "-u", "-p", "ALL", str(INTERVAL_S), "1"], environment)
    theirs = (long - short) / ((READINGS - 1) * count)
    window, samples = spend_in_window(omn, ["proc.tasks", "--system"])
    assert samples >= READINGS * PROCESSES
    ours = window / samples
    print(f"\na process: omn {ours * 1e6:.2f} us, pidstat {theirs * 1e6:.2f} us of cpu ({ours / theirs:.2f}x)")
    assert ours <= theirs


def test_polling_five_hundred_resident_sets_costs_no_more_than_pidstat(omn: Any, herd: list[int]) -> None:
    """The window's cpu per sample, omn's own account of it held to the kernel's, against pidstat -r less its start."""
    if shutil.which("pidstat") is None:
        pytest.skip("pidstat (sysstat) is not installed here")
    pids = ",".join(map(str, herd))
    pidstat = ["pidstat", "-r", "-p", pids, str(INTERVAL_S)]
    long, _ = spend([*pidstat, str(READINGS)], {**os.environ, "LC_ALL": "C"})
    short, _ = spend([*pidstat, "1"], {**os.environ, "LC_ALL": "C"})
    theirs = (long - short) / ((READINGS - 1) * PROCESSES)
    window, samples = spend_in_window(omn, ["mem.rss", "--keys", "proc", "--pid", pids])
    assert samples >= READINGS * PROCESSES
    ours = window / samples
    print(f"\na sample: omn {ours * 1e6:.2f} us, pidstat {theirs * 1e6:.2f} us of cpu ({ours / theirs:.2f}x)")
    assert ours <= theirs
