"""Programs in the kernel under the limit of locked memory that a process has where nobody raised it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omn_kernel.bpf.refusals import find_memory_limit

from omn_core.testing.fixtures import Command

USUAL_BYTES = 64 << 10
PROGRAM = """
import resource, sys, time
[time.sleep(0.001) for _ in range(50)]
with open(sys.argv[1], "w") as file:
    print(*resource.getrlimit(resource.RLIMIT_MEMLOCK), file=file)
"""
TRANSPORT = """
import numpy, resource
from omn_kernel.bpf.transport import open_transport
print(type(open_transport(numpy.dtype([("ns", "u8")]))).__name__)
"""


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (USUAL_BYTES, USUAL_BYTES))


@pytest.mark.spec("KRN-4", "KRN-9")
@pytest.mark.parametrize(("source", "mode"), [("sched.runqlat", "count"), ("sched.runqlat", "trace")])
def test_a_source_runs_under_the_usual_limit_and_its_program_keeps_that(
    omn: Command, tmp_path: Path, source: str, mode: str
) -> None:
    """Before Linux 5.11 maps and programs are charged to it: omn lifts its own while it makes them, and no longer."""
    emit = {"count": "count", "trace": "raw"}[mode]
    told = tmp_path / "limits"
    program = (sys.executable, "-S", "-c", PROGRAM, str(told))
    words = (source, "-m", mode, "-e", emit, "--format", "json", "--", *program)
    done = subprocess.run(
        [*omn.argv, *words],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limit,
        env=omn.environment(OMN_CACHE_DIR=os.environ["OMN_CACHE_DIR"]),
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)["results"][0]
    assert result["backend"].startswith("bpf:")
    assert result["events_seen"] > 0
    assert told.read_text().split() == [str(USUAL_BYTES)] * 2


@pytest.mark.spec("KRN-4", "KRN-9")
def test_records_come_through_perf_events_where_a_ring_buffer_is_refused() -> None:
    """A ring buffer is the one map that stays within the limit: a kernel that charges it hands records over by cpu."""
    done = subprocess.run(
        [sys.executable, "-c", TRANSPORT], capture_output=True, text=True, check=True, preexec_fn=limit, timeout=300
    )
    charged = find_charging()
    assert done.stdout.strip() == ("PerfArrays" if charged else "RingBuffer")


def find_charging() -> bool:
    """Tell whether this kernel charges maps to the limit, which is lifted in this process itself."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit()
    try:
        return find_memory_limit(PermissionError(1, "refused")) is not None
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
