"""What omn loads into the kernel is gone after it, however it ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from held_objects import Objects, list_all, list_held, wait_until_gone

pytestmark = pytest.mark.usefixtures("loads_programs")
BROKEN = Path(__file__).parents[1] / "support" / "broken_attaching.py"
ASKED = ("sched.runqlat", "-m", "trace", "-e", "summary", "--backend", "force:bpf:raw_tp")
LEAST = {"prog": 2, "map": 2, "link": 2}
"""How much of each kind the programs of the source take, at the least."""


def wait_until_attached(process: subprocess.Popen[bytes]) -> Objects:
    """Wait until a command's programs are attached, and return all that it holds then: the window is open."""
    before: Objects = frozenset()
    while True:
        assert process.poll() is None, process.stderr and process.stderr.read()
        held = list_held(process.pid)
        counts = {kind: sum(one == kind for one, _ in held) for kind in LEAST}
        if held == before and all(counts[kind] >= least for kind, least in LEAST.items()):
            return held
        before = held
        time.sleep(0.05)


@pytest.mark.spec("RUN-5", "KRN-2")
@pytest.mark.parametrize(
    ("ended_by", "code"), [(None, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)], ids=["end", "interrupt", "kill"]
)
def test_nothing_stays_after_an_end(omn: Any, ended_by: signal.Signals | None, code: int) -> None:
    """Of a program that ended by itself, of Ctrl-C, of a kill that nobody can answer."""
    program = (sys.executable, "-S", "-c", "import sys; sys.stdin.read()")
    with subprocess.Popen(
        [*omn.argv, *ASKED, "--", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=omn.environment(),
    ) as process:
        held = wait_until_attached(process)
        assert held <= list_all()
        if ended_by is not None:
            process.send_signal(ended_by)
        process.communicate()
    assert process.returncode == code
    assert wait_until_gone(held) == frozenset()


@pytest.mark.spec("RUN-5", "KRN-2")
@pytest.mark.parametrize(("how", "said"), [("attach", "it is refused half-way"), ("verify", "R5 !read_ok")])
def test_nothing_stays_after_a_refusal(omn: Any, tmp_path: Path, how: str, said: str) -> None:
    """Of an attachment that is refused after the first was made, and of a program that the verifier rejects."""
    told = tmp_path / "held"
    with subprocess.Popen(
        [sys.executable, str(BROKEN), how, str(told), *ASKED, "--system", "-d", "60s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=omn.environment(PYTHONPATH=str(BROKEN.parent)),
    ) as process:
        assert process.stdout is not None
        code = process.stdout.readline()  # the process lives on: what is gone is gone by its own doing
        held = frozenset((kind, number) for kind, number in json.loads(told.read_text()))
        assert {"attach": {"prog", "map", "link"}, "verify": {"prog", "map"}}[how] <= {kind for kind, _ in held}
        assert wait_until_gone(held) == frozenset()
        assert list_held(process.pid) == frozenset()
        _, complaint = process.communicate()
    assert json.loads(code) == 1
    assert said in complaint.decode()
