"""The gates of conftest.py on a run of tests, in runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

UNSTEADY = """
import os
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_unsteady(number):
    path = f"{{os.path.dirname(__file__)}}/{{number}}"
    if not os.path.exists(path):
        open(path, "w").close()
        raise AssertionError(f"the first time of {{number}}")
"""
BROKEN = """
def test_broken():
    raise AssertionError("every time")
"""


def run(folder: Path, tests: str) -> tuple[int, list[str]]:
    """Run tests as the environments do; return the exit status and what was printed."""
    pytest.importorskip("pytest_rerunfailures", reason="pytest-rerunfailures is not installed here")
    (folder / "test_made.py").write_text(tests)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-n", "1", "--dist", "loadfile", "--reruns", "1"]
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests/support")))
    done = subprocess.run(
        [*argv, "-p", "no:cacheprovider", "test_made.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_a_test_that_passes_the_second_time_is_named_with_how_it_failed(tmp_path: Path) -> None:
    """A run of three of them passes."""
    code, lines = run(tmp_path, UNSTEADY.format(count=3))
    assert code == 0, lines
    said = [line for line in lines if line.startswith("RERUN ")]
    first = "AssertionError: the first time of"
    assert sorted(said) == [f"RERUN test_made.py::test_unsteady[{number}]: {first} {number}" for number in range(3)]


def test_too_many_reruns_fail_a_run(tmp_path: Path) -> None:
    """Four of them are a suite that does not hold, though each of its tests passed in the end."""
    code, lines = run(tmp_path, UNSTEADY.format(count=4))
    assert code == 1
    assert "4 tests were run again, more than the 3 that a run may have" in lines
    assert not any(line.startswith("FAILED ") for line in lines)


def test_what_fails_twice_fails(tmp_path: Path) -> None:
    """Once more is once."""
    code, lines = run(tmp_path, BROKEN)
    assert code == 1
    assert sum(line.startswith("FAILED test_made.py::test_broken") for line in lines) == 1
