"""Profiles by a user who may open few files, lock little memory and see no code of the kernel's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from closed_events import hold_served

from omn_core.testing.fixtures import Command

NOBODY = 65534
CHILDREN = 500
# A shell, which any user can start; each subshell is a process that ends at once.
FORKS = f"""
i=0; while [ $i -lt {CHILDREN} ]; do (:); i=$((i + 1)); done
i=0; while [ $i -lt 150000 ]; do i=$((i + 1)); done
"""


def limit() -> list[str]:
    """Return what runs a command as nobody with 64 descriptors and 64 KiB of locked memory."""
    words = ["prlimit", "--nofile=64:64", "--memlock=65536:65536"]
    if os.geteuid() == 0:
        words += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        words += ["--bounding-set=-all", "--inh-caps=-all"]
    if missing := [word for word in ("prlimit", "setpriv") if word in words and shutil.which(word) is None]:
        pytest.skip(f"{missing[0]} is not installed here")
    return words


@pytest.mark.spec("KRN-7", "STK-1")
@pytest.mark.parametrize("walk", ["fp", "dwarf"])
def test_a_program_of_many_children_is_profiled_where_little_may_be_opened_or_locked(walk: str, omn: Command) -> None:
    """Five hundred children, each gone at once: the rings are small and the events few, and every sample is there.

    What found no room in such a ring is counted. A kernel that opens no event for this user refuses by name.
    """
    asked = ("cpu.profile", "--stack", walk, "-e", "stack", "-e", "raw", "--format", "json")
    environment = omn.environment()
    if subprocess.run([*limit(), *omn.argv, "--version"], capture_output=True, env=environment, check=False).returncode:
        pytest.skip("another user cannot start this installation")
    command = [*limit(), *omn.argv, *asked, "--", "/bin/sh", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    hold_served(done.returncode, done.stderr)
    document = json.loads(done.stdout)
    (result,) = document["results"]
    assert document["program"]["exit"] == {"code": 0}
    assert result["fields"]["delivered"] == len(result["raw"]) > 0
    # The program's own time from its execve on, its children's in it.
    assert 0.5 * document["program"]["cpu_ns"] < result["fields"]["ran_ns"] <= 1.1 * document["program"]["cpu_ns"]
    assert {row["key"]["comm"] for row in result["raw"]} <= {"sh", "dash", "bash", "busybox"}
    if os.geteuid() == 0:
        assert any("the kernel's own code is not sampled" in said for said in result["degraded"])
    if walk == "dwarf":
        rows = result["series"][0]["emits"]["stack"]["rows"]
        started = [row for row in rows if any(name.startswith("__libc_start_main") for name in row["frames"])]
        # A walk that was cut, or ended where nothing tells who called, has it not; nor has the loader before.
        ended = result["fields"]["cut_stacks"] + result["fields"]["unfinished_stacks"]
        assert sum(row["count"] for row in started) + ended > 0.5 * result["fields"]["delivered"]


@pytest.mark.spec("CPU-1")
def test_a_program_that_ends_at_once_is_an_answer(omn: Command) -> None:
    """It may be over before its first sample: then there is none, and its end is told."""
    done = omn("cpu.profile", "--format", "json", "--", "true")
    hold_served(done.code, done.stderr)
    assert done.document["program"]["exit"] == {"code": 0}
    assert done.result["fields"]["delivered"] < 100
