"""The process connector and programs in the kernel, against a program that makes a known number of processes."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from typing import Any

import pytest

from omn_core.testing.fixtures import Command

LIVES = """
import os, subprocess
for _ in range(10):
    subprocess.run(["/bin/true"], check=True)
for code in (0, 3, 3, 7):
    if (child := os.fork()) == 0:
        os._exit(code)
    os.waitpid(child, 0)
os._exit(9)
"""


@pytest.mark.spec("KRN-9", "SRC-5")
def test_processes_are_told_of_when_they_begin_execute_and_end(omn: Command) -> None:
    """Fourteen are made, by fork or the vfork of what is executed at once; eleven programs run; each ends as told.

    Programs read what each was executed with, and see the signals that tell their parent and the calls they make.

    In one run, since a start takes a guest ten seconds.
    """
    target = {"launch": [sys.executable, "-S", "-c", LIVES]}
    asked: list[dict[str, Any]] = [
        {"source": source, "mode": "trace", "emits": ["raw"], "backend": backend, "target": target}
        for backend in ("netlink:proc", "bpf:raw_tp")
        for source in ("proc.fork", "proc.exec", "proc.exit")
    ]
    asked += [
        {"source": "proc.signals", "mode": "count", "emits": ["topk:9@signal"], "target": target},
        {"source": "proc.calls", "mode": "trace", "emits": ["raw"], "filter": "op == 'wait4'", "target": target},
    ]
    session = json.dumps({"requests": asked}).encode()
    # The catalog as it was read once, which is another ten seconds.
    ran = omn("-f", "-", "--format", "json", stdin=session, timeout_s=300.0, OMN_CACHE_DIR=os.environ["OMN_CACHE_DIR"])
    assert ran.code == 0, ran.stderr
    *lives, signals, calls = ran.document["results"]
    assert [one["losses"]["dropped"] for one in ran.document["results"]] == [0] * 8
    for forks, execs, exits in (lives[:3], lives[3:]):
        assert (forks["events_seen"], execs["events_seen"]) == (14, 11)
        assert Counter(row["attrs"]["code"] for row in exits["raw"]) == {0: 11, 3: 2, 7: 1, 9: 1}
    read = [row["attrs"].get("argv") for row in lives[4]["raw"]]
    assert read.count("/bin/true") == 10
    assert read[0].startswith(sys.executable)
    (sent,) = signals["series"][0]["emits"]["topk:9@signal"]["rows"]
    assert (sent["key"]["signal"], sent["value"]) == ("SIGCHLD", 14)
    # A program on calls that is put off in the middle is passed over for the next task's (Linux 6.13): that is said.
    waited = sum(row["attrs"].get("result", 0) > 0 for row in calls["raw"])
    assert 14 - calls["losses"]["skipped"] <= waited <= 14
