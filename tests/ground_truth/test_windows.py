"""Windows of a request's own, against a program that counts its own work and says when it had done how much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

LOG = """
import mmap, resource, sys, time
size = mmap.PAGESIZE
area = mmap.mmap(-1, 20_000 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_NOHUGEPAGE)
log = open(sys.argv[1], "w", buffering=1)
def note():
    # The number is read between two looks at the clock: it was that number somewhere between them.
    before = time.monotonic_ns()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    print(before, faults, time.monotonic_ns(), file=log)
end = time.monotonic() + float(sys.argv[2])
place = 0
while time.monotonic() < end and place < 20_000 * size:
    area[place] = 1
    place += size
    note()
    time.sleep(0.001)
"""
MS = 1_000_000
START, STOP = 500 * MS, 1500 * MS


def read_log(path: Path) -> list[tuple[int, int, int]]:
    """Return what the program noted: the time before, its faults so far, the time after."""
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines() if line.count(" ") == 2]  # type: ignore[misc]


def faults_before(log: Sequence[tuple[int, int, int]], instant_ns: int) -> int:
    """Return how many there surely were by an instant."""
    return max(faults for _, faults, after in log if after <= instant_ns)


def faults_after(log: Sequence[tuple[int, int, int]], instant_ns: int) -> int:
    """Return how many there were at most by an instant."""
    return min(faults for before, faults, _ in log if before >= instant_ns)


def check_faults(document: dict[str, Any], result: dict[str, Any], log: Sequence[tuple[int, int, int]]) -> int:
    """Hold a count to what the program noted around its attach and its closing read, and return it.

    The baseline is read between the asked start and `attached_ns`, the closing between the asked stop and the close.
    """
    opened_ns = document["window"]["opened_ns"]
    assert opened_ns + START <= result["attached_ns"] <= result["window"]["opened_ns"]
    assert opened_ns + STOP <= result["window"]["closed_ns"] <= result["detached_ns"]
    counted: int = result["series"][0]["emits"]["count"]["value"]
    least = faults_before(log, opened_ns + STOP) - faults_after(log, result["attached_ns"])
    most = faults_after(log, result["window"]["closed_ns"]) - faults_before(log, opened_ns + START)
    assert least <= counted <= most
    assert least > 0
    return counted


def make_request(target: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"source": "mem.faults", "mode": "count", "emits": ["count"], "target": target, **fields}


def run_session(omn: Any, session: dict[str, Any]) -> dict[str, Any]:
    ran = omn("-f", "-", "--input-format", "json", "--format", "json", stdin=json.dumps(session).encode())
    assert ran.code == 0, ran.stderr
    document: dict[str, Any] = ran.document
    return document


@pytest.mark.spec("REQ-6")
def test_a_launched_program_is_attached_to_hot_and_let_go_hot(omn: Any, tmp_path: Path) -> None:
    """What it did before and after its window is in the whole run's figure and not in the window's."""
    program = [sys.executable, "-c", LOG, str(tmp_path / "log"), "2.5"]
    own = {"start": "500ms", "stop": "1500ms"}
    requests = [make_request({"launch": program}, window=own), make_request({"launch": program})]
    document = run_session(omn, {"requests": requests})
    log = read_log(tmp_path / "log")
    inside, all_of_it = document["results"]
    counted = check_faults(document, inside, log)
    assert inside["stopped_because"] == "its window ended"
    assert all_of_it["series"][0]["emits"]["count"]["value"] > counted
    assert (all_of_it["attached_ns"], all_of_it["detached_ns"]) == (None, None)


@pytest.mark.spec("REQ-6")
def test_a_running_process_is_measured_beside_a_workload_and_the_machine(omn: Any, tmp_path: Path) -> None:
    """Three requests, three windows, one run: a process that was there already, the program, the machine."""
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", LOG, str(log), "30"]) as running:
        try:
            while not log.exists() or not read_log(log):
                assert running.poll() is None
            own = {"start": "500ms", "stop": "1500ms"}
            session = {
                "launch": ["sleep", "1.8"],
                "requests": [
                    make_request({"pid": [running.pid]}, window=own),
                    {
                        "source": "cpu.util",
                        "target": {"system": True},
                        "interval": "100ms",
                        "window": {"stop": "500ms"},
                    },
                    {"source": "mem.meminfo", "target": {"system": True}, "interval": "200ms"},
                ],
            }
            document = run_session(omn, session)
        finally:
            running.kill()
    process, machine, throughout = document["results"]
    check_faults(document, process, read_log(log))
    opened_ns, closed_ns = document["window"]["opened_ns"], document["window"]["closed_ns"]
    assert machine["window"]["opened_ns"] == throughout["window"]["opened_ns"] == opened_ns
    assert machine["window"]["closed_ns"] - opened_ns >= 500 * MS
    assert machine["attached_ns"] <= opened_ns
    assert throughout["window"]["closed_ns"] == closed_ns
    assert machine["window"]["closed_ns"] < closed_ns
    assert document["program"]["exit"] == {"code": 0}


@pytest.mark.spec("REQ-6", "REQ-10")
def test_a_process_that_ends_before_its_window_leaves_no_figure(omn: Any) -> None:
    """Said, empty, and no failure: the other requests are served."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as running:
        session = {
            "launch": ["sh", "-c", f"kill {running.pid}; sleep 0.6"],
            "requests": [
                make_request({"pid": [running.pid]}, window={"start": "400ms"}),
                make_request({"pid": [os.getpid()]}),
            ],
        }
        document = run_session(omn, session)
    ended, served = document["results"]
    assert ended["stopped_because"] == "its target ended before its window opened"
    assert (ended["series"], ended["events_seen"], ended["attached_ns"]) == ([], 0, None)
    assert served["series"][0]["emits"]["count"]["value"] is not None
