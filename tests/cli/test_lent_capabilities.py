"""omn as an ordinary user with two capabilities: it runs programs in the kernel, and launches its own with neither."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from omn_kernel.privileges import read_privileges

from omn_core.testing.fixtures import Command

NOBODY = 65534
LENT = "+bpf,+perfmon"
LAUNCH = """
from omn_core.run.launcher import LaunchPlan, launch
launched = launch(LaunchPlan("/bin/cat", ("cat", "/proc/self/status")))
launched.release()
launched.wait()
"""
PROGRAM = "import sys, time; [time.sleep(0.001) for _ in range(40)]; print(open('/proc/self/status').read())"


_PLACE = sysconfig.get_path("purelib")
INSTALLED = f"import site, sys; sys.path.insert(0, {_PLACE!r}); site.addsitedir({_PLACE!r}); "
"""What has another interpreter of the same version find what is installed here."""


def find_interpreter() -> str:
    """Find an interpreter of this version that everybody may run, and that imports what is installed here."""
    for one in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        asked = [*become(), "env", one, "-c", f"{INSTALLED}import omn_core.cli.entry, omn_kernel.native.calls"]
        if subprocess.run(asked, capture_output=True, check=False, cwd="/").returncode == 0:
            return one
    pytest.skip("another user cannot import this installation: it is closed to him")


def become(lent: str = "") -> list[str]:
    """Become nobody, with some capabilities to hand on or with none."""
    sets = [f"--inh-caps={lent}", f"--ambient-caps={lent}"] if lent else []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *sets]


def run_lent(
    text: str, words: Sequence[str], started_by: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python as nobody with the two capabilities, started by something that has them too or by this process."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("another user's process takes root and setpriv to start")
    if not read_privileges("/").has("bpf"):
        pytest.skip("this process is without CAP_BPF")
    command = [*become(LENT), *started_by, find_interpreter(), "-P", "-c", INSTALLED + text, *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False, cwd="/")


def parse_sets(status: str) -> dict[str, int]:
    """Parse the capability sets of /proc/self/status."""
    lines = (line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))
    return {name: int(value, 16) for name, value in lines}


@pytest.mark.spec("SEC-5", "SEC-2")
def test_a_launched_program_has_none_of_what_omn_was_lent(omn: Command, tmp_path: Path) -> None:
    """Its sets are those of the user who ran omn, while omn's programs count in the kernel as that user."""
    words = ("sched.runqlat", "-m", "trace", "-e", "summary", "--backend", "force:bpf:raw_tp", "--format", "json")
    os.chown(omn.cache, NOBODY, NOBODY)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)  # pytest keeps its folders to their owner
    done = run_lent(
        omn.argv[-1], (*words, "--", "/usr/bin/python3", "-S", "-c", PROGRAM), environment=omn.environment()
    )
    assert done.returncode == 0, done.stderr
    status, _, document = done.stdout.partition("{")
    sets = parse_sets(status)
    assert (sets["CapEff"], sets["CapPrm"], sets["CapAmb"], sets["CapInh"]) == (0, 0, 0, 0)
    assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}" in status
    (result,) = json.loads("{" + document)["results"]
    assert result["backend"] == "bpf:raw_tp"
    assert result["events_seen"] >= 40


@pytest.mark.spec("SEC-5")
def test_what_a_user_has_anyway_stays_with_the_program() -> None:
    """A shell that hands capabilities on does so with omn between as without."""
    done = run_lent(LAUNCH, (), ("sh", "-c", '"$@"; exit $?', "sh"))
    assert done.returncode == 0, done.stderr
    sets = parse_sets(done.stdout)
    assert sets["CapAmb"] == sets["CapEff"] == sets["CapInh"] == 1 << 38 | 1 << 39
