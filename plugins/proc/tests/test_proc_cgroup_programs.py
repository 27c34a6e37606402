"""What programs on either kind of tracepoint tell of a cgroup: what is done there and in those below."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cgroup_programs import ask_of_cgroup, has_all, read_count, three_cgroups
from event_backends import RECORDED, needs_records

from omn_core.testing.fixtures import Command

pytestmark = pytest.mark.usefixtures("loads_typed_programs")

WORK = """
for _ in range(20): os.getpriority(0, 0)
for _ in range(2): os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
"""
ASKED: dict[str, dict[str, Any]] = {
    "proc.fork": {"mode": "count", "emits": ["count"]},
    "proc.exec": {"mode": "count", "emits": ["count"]},
    "proc.exit": {"mode": "count", "emits": ["count"]},
    "proc.syscall": {"mode": "count", "emits": ["count"], "filter": "op == 'getpriority'"},
    "proc.calls": {"mode": "trace", "emits": ["raw"], "filter": "op == 'getpriority'"},
}


@needs_records
@pytest.mark.spec("KRN-5", "PRC-1")
def test_a_cgroup_has_the_lives_and_the_calls_of_its_processes(
    omn: Command, make_cgroup: Callable[[str], Path]
) -> None:
    """Two cgroups of three that do the same: to the event, by the kernel's types and without them."""
    asked = [{"source": source, **how} for source, how in ASKED.items()]
    for forks, execs, exits, syscalls, calls in zip(*ask_of_cgroup(omn, make_cgroup, WORK, asked), strict=True):
        assert has_all(forks, read_count(forks), made=2 * 2)
        assert has_all(execs, read_count(execs), made=2 * 2)
        assert has_all(exits, read_count(exits), made=2 * 3)
        assert has_all(syscalls, read_count(syscalls, "events"), made=2 * 20)
        assert has_all(calls, len(calls["raw"]), made=2 * 20)


@needs_records
@pytest.mark.spec("KRN-5", "REQ-11")
def test_records_know_a_cgroup_from_inside_a_cgroup_namespace(omn: Command, make_cgroup: Callable[[str], Path]) -> None:
    """Where no depth is known, by which the kernel's types tell: the answer is the same from there."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare: not installed here")
    with three_cgroups(make_cgroup) as (inside, below, beside):
        script = "; ".join(f"(echo 0 > {folder}/cgroup.procs; /bin/true; :)" for folder in (inside, below, beside))
        asked = ["proc.exec", "-m", "count", "-e", "count", "--cgroup", str(inside), "--format", "json"]
        for namespace in ([], ["unshare", "--cgroup", "--"]):
            argv = [*namespace, *omn.argv, *asked, "--backend", f"force:{RECORDED}", "--", "sh", "-c", script]
            done = subprocess.run(argv, env=omn.environment(), capture_output=True, text=True, check=False)
            if done.stderr.startswith("unshare: "):
                pytest.skip(f"no cgroup namespace can be made here: {done.stderr.strip()}")
            assert done.returncode == 0, done.stderr
            (result,) = json.loads(done.stdout)["results"]
            assert has_all(result, read_count(result), made=2)


@needs_records
@pytest.mark.spec("KRN-5", "REQ-11")
def test_a_cgroup_of_version_1_alone_is_refused_to_records(omn: Command, make_cgroup: Callable[[str], Path]) -> None:
    """It is the machine's refusal, with what would mend it."""
    folder = make_cgroup("cpu")
    asked = ["proc.exec", "--cgroup", str(folder), "-d", "50ms", "--backend", f"force:{RECORDED}"]
    ran = omn(*asked)
    assert ran.code == 1
    assert "stands in no cgroup2 hierarchy" in ran.stderr
    assert "name a cgroup of cgroup2" in ran.stderr
