"""What stands between a pair and its figures, and whose it is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from reference.load import load_pairs
from reference.model import Pair, When
from reference.refusal import CannotRunError, PairFailedError
from reference.runner import run_pair
from reference.tools import watch
from reference.verdict import State, Verdict
from reference.workloads import wait_blocked

from omn_core.testing.fixtures import Command
from omn_core.testing.stepped import WorkloadError, start
from omn_core.testing.workloads import spin

pytestmark = pytest.mark.spec("BEN-1")
ROOT = Path(__file__).parents[2]
Run = Callable[..., Verdict]


def get_pair(identifier: str) -> Pair:
    """Return a pair of the tree."""
    return next(one for one in load_pairs() if one.id == identifier)


@pytest.fixture
def run(omn: Command, tmp_path: Path) -> Run:
    """Run a pair of the tree, its tool replaced by another command."""

    def run_changed(identifier: str, *command: str, **changes: object) -> Verdict:
        pair = attrs.evolve(get_pair(identifier), **changes)
        if command:
            pair = attrs.evolve(pair, tool=attrs.evolve(pair.tool, command=command))
        return run_pair(pair, omn, tmp_path / "pair")

    return run_changed


def test_a_tool_that_is_not_installed_is_skipped_by_name(run: Run) -> None:
    """The reason names the program and the package that has it; nothing ran."""
    verdict = run("mem-rss-ps", "ps-of-another-world", "{pid}")
    assert (verdict.state, verdict.reason) == (
        State.SKIP,
        "ps-of-another-world (package procps) is not installed here",
    )


def test_a_path_that_a_pair_needs_and_is_not_there_is_the_machines(run: Run) -> None:
    """As is a program beside the tool."""
    verdict = run("mem-rss-ps", requires=("/proc/nowhere",))
    assert (verdict.state, verdict.reason) == (State.SKIP, "this machine has no /proc/nowhere")
    verdict = run("mem-rss-ps", requires=("program:nowhere",))
    assert (verdict.state, verdict.reason) == (State.SKIP, "nowhere is not installed here")


def test_a_tool_that_may_not_is_skipped_with_its_words(run: Run) -> None:
    """A refusal is the machine's."""
    verdict = run("mem-rss-ps", "sh", "-c", "echo 'ps: /proc: Permission denied' >&2; exit 1")
    assert verdict.state is State.SKIP
    assert verdict.reason == "ps -o rss refused: ps: /proc: Permission denied"


def test_a_tool_that_fails_fails_the_pair(run: Run) -> None:
    """Any other failure is nobody's excuse."""
    verdict = run("mem-rss-ps", "sh", "-c", "echo 'no such option' >&2; exit 2")
    assert (verdict.state, verdict.reason) == (State.FAIL, "ps -o rss ended with 2: no such option")


def test_output_that_no_parser_reads_fails_the_pair(run: Run) -> None:
    """A change of the tool's text is seen, and is no zero."""
    verdict = run("mem-rss-ps", "echo", "nothing of the kind")
    assert verdict.state is State.FAIL
    assert verdict.reason == "ps -o rss printed what no parser reads: no heading has the words PID"


def test_a_figure_that_the_tool_does_not_have_fails_the_pair(run: Run) -> None:
    """The reason says which there are."""
    verdict = run("mem-rss-ps", "ps", "-o", "pid,nlwp", "-p", "{pid}")
    assert (verdict.state, verdict.reason) == (
        State.FAIL,
        "ps -o rss has no figure 'rss_bytes'; it has threads",
    )


def test_a_known_defect_excuses_no_missing_figure(run: Run) -> None:
    """It excuses numbers alone."""
    verdict = run("mem-rss-ps", "echo", "nothing of the kind", known_defect="ps is wrong")
    assert verdict.state is State.FAIL


def test_what_omn_refuses_for_the_machine_is_skipped(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """omn's own sentence is the reason."""
    monkeypatch.setenv("OMN_SYSROOT", str(tmp_path))
    verdict = run("mem-meminfo-free")
    assert verdict.state is State.SKIP
    assert verdict.reason is not None
    assert "meminfo" in verdict.reason


def test_what_omn_refuses_for_the_request_fails_the_pair(run: Run) -> None:
    """A pair that asks nonsense is no reason to skip it."""
    asked = attrs.evolve(get_pair("mem-rss-ps").asked, filter="nothing == 1")
    verdict = run("mem-rss-ps", asked=asked)
    assert verdict.state is State.FAIL
    assert verdict.reason is not None
    assert verdict.reason.startswith("omn ended with 2: ")


def test_figures_that_differ_fail_with_both(run: Run) -> None:
    """A tool that says another number is believed no more than omn."""
    verdict = run("mem-rss-ps", "printf", "PID RSS\n1 4\n")
    assert (verdict.state, verdict.tool) == (State.FAIL, 4096)


def test_a_counter_is_compared_by_its_growth(run: Run) -> None:
    """Two readings of a number that stands still are growth of nothing, and omn's count is not nothing."""
    verdict = run("mem-faults-ps", "printf", "PID MINFL\n1 1000000\n")
    assert (verdict.state, verdict.tool) == (State.FAIL, 0)
    assert verdict.omn is not None
    assert verdict.omn >= 20_000


TRACER = """#!/bin/sh
trap 'echo "{\\"type\\": \\"map\\", \\"data\\": {\\"@counted\\": 7}}"; exit 0' INT
echo 'Attaching 1 probe...'
echo __BPFTRACE_NOTIFY_PROBES_ATTACHED >&2
while :; do sleep 0.01; done
"""


def test_a_tracer_counts_from_where_it_says_so_until_it_is_interrupted(run: Run, tmp_path: Path) -> None:
    """What it prints at its end is read, whatever words of its own stand before that."""
    tracer = tmp_path / "tracer"
    tracer.write_text(TRACER)
    tracer.chmod(0o755)
    parser = "reference.parsers.tracing:parse_bpftrace"
    tool = attrs.evolve(get_pair("sched-switches-perf").tool, command=(str(tracer),), parser=parser, figure="counted")
    verdict = run("sched-switches-perf", tool=tool)
    assert (verdict.state, verdict.tool) == (State.FAIL, 7)
    assert verdict.omn is not None
    assert verdict.omn >= 1_000


def test_a_tracer_that_ends_before_it_traces_has_no_figure(tmp_path: Path) -> None:
    """Where it says that it may not, it is the machine's; anything else fails, an end without a word too."""

    def trace(script: str) -> None:
        tool = attrs.evolve(get_pair("sched-switches-perf").tool, command=("sh", "-c", script))
        with watch(tool, {"output": str(tmp_path / "output")}):
            pytest.fail("it never said that it traces")

    with pytest.raises(CannotRunError, match="refused: only supports running as the root user"):
        trace("echo only supports running as the root user. >&2; exit 1")
    with pytest.raises(PairFailedError, match="ended with 1: it said nothing"):
        trace("exit 0")


def test_medians_of_several_runs_are_compared(run: Run, tmp_path: Path) -> None:
    """One run of three that is off decides nothing."""
    marks = tmp_path / "marks"
    script = f"echo x >> {marks}; printf 'PID NLWP\\n1 %d\\n' $(test $(wc -l < {marks}) = 2 && echo 7 || echo 101)"
    verdict = run("proc-threads-ps", "sh", "-c", script, runs=3)
    assert (verdict.state, verdict.tool, marks.read_text()) == (State.PASS, 101, "x\n" * 3)


def test_a_tool_that_runs_to_its_end_needs_no_workload(run: Run) -> None:
    """It is one."""
    pair = get_pair("mem-meminfo-total-free")
    assert (pair.workload, pair.tool.when) == (None, When.DURING)
    assert run(pair.id).state is State.PASS


def test_a_workload_is_at_its_step_when_it_sleeps_there() -> None:
    """One that runs on is not, whatever it has reported; its counters still move."""
    with start(spin(1)) as running:
        running.wait("ready")
        wait_blocked(running.pid, 30.0)
        assert Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    with start(spin(600 * 10**9)) as running:
        running.wait("ready")
        wait_blocked(running.pid, 30.0)
        running.release()
        while read_oncpu(running.pid) < 10**8:  # until the kernel says that it spins
            time.sleep(0.01)
        with pytest.raises(WorkloadError, match="did not sleep at its step"):
            wait_blocked(running.pid, 0.05)


def read_oncpu(pid: int) -> int:
    """Return how long a process ran, in nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_a_family_outside_the_tree_runs_its_own_pairs(tmp_path: Path) -> None:
    """`--pairs FOLDER`, with parsers and workloads of modules that are not in the tree."""
    (tmp_path / "their_parsers.py").write_text(
        "from omn_core.testing.workloads import touch_bytes\n\n"
        "def parse(text):\n    return {'rss_bytes': int(text) * 1024}\n"
    )
    (tmp_path / "mem.yaml").write_text(
        """
pairs:
  - id: theirs
    source: mem.rss
    use: how much memory a process holds
    unit: bytes
    asked: {target: pid, mode: snapshot, emit: summary}
    omn: {field: last}
    workload: {name: "their_parsers:touch_bytes", arguments: {size_bytes: 1048576}, until: touched}
    tool:
      title: their tool
      package: procps
      command: [ps, -o, rss=, -p, "{pid}"]
      when: held
      parser: their_parsers:parse
      figure: rss_bytes
    tolerance: {relative: 0.05}
"""
    )
    options = ["--pairs", str(tmp_path), "-o", f"pythonpath=tests/support {tmp_path}", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/reference/whole", *options],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert "reference pairs: 1 PASS" in done.stdout, done.stdout + done.stderr
    assert "PASS mem.rss vs their tool: " in done.stdout
