"""Programs in the kernel under the limit of locked memory that a process has where nobody raised it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import Any

import pytest

from omn_core.testing.fixtures import Command

USUAL_BYTES = 64 << 10
PROGRAM = (sys.executable, "-S", "-c", "import time; [time.sleep(0.001) for _ in range(50)]")


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (USUAL_BYTES, USUAL_BYTES))


@pytest.mark.spec("KRN-4", "KRN-9")
@pytest.mark.parametrize(("source", "mode"), [("sched.runqlat", "count"), ("sched.runqlat", "trace")])
def test_a_source_alone_runs_or_names_the_limit(omn: Command, source: str, mode: str) -> None:
    """From Linux 5.11 on nothing is charged to it; before, what does not fit is refused by the limit's name."""
    emit = {"count": "count", "trace": "raw"}[mode]
    words = (source, "-m", mode, "-e", emit, "--format", "json", "--", *PROGRAM)
    done = subprocess.run(
        [*omn.argv, *words],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limit,
        env=omn.environment(OMN_CACHE_DIR=os.environ["OMN_CACHE_DIR"]),
    )
    if done.returncode == 1:
        assert f"locked-memory limit, which is {USUAL_BYTES} bytes" in done.stderr
        pytest.skip("the programs of this source do not fit into 64 KiB of locked memory")
    result: dict[str, Any] = json.loads(done.stdout)["results"][0]
    assert result["backend"].startswith("bpf:")
    assert result["events_seen"] > 0
