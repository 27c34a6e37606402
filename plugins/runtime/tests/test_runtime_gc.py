"""Collections of garbage, held against what a Python is told of its own by the callbacks of its collector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omn_kernel.elf.image import read_image
from omn_kernel.elf.marks import read_marks
from omn_kernel.elf.source import ElfError, File

from omn_core.testing.fixtures import Command

PYTHONS = ("/usr/bin/python3", sys.executable)
# Makes garbage of 2 * 5 objects, collects it, and writes when each collection of its own began and was done, as it was
# told, and how many objects there were.
SOURCE = """
import gc, json, sys, time
gc.disable()
told = []
def hear(phase, found):
    count = found["collected"] + found["uncollectable"] if phase == "stop" else None
    told.append((phase, time.monotonic_ns(), found["generation"], count))
gc.callbacks.append(hear)
for generation in (0, 1, 2, 2):
    for _ in range(5):
        one, other = [], []
        one.append(other)
        other.append(one)
    one = other = None
    gc.collect(generation)
gc.callbacks.clear()
with open(sys.argv[1], "w") as out:
    json.dump(told, out)
"""


def marks_collections(path: str) -> bool:
    """Tell whether a Python is built with the marks of its collector."""
    try:
        with File(os.path.realpath(path)) as file:
            return "python:gc__start" in {one.name for one in read_marks(read_image(file))}
    except (OSError, ElfError):
        return False


@pytest.fixture
def python(loads_typed_programs: None) -> str:
    """A Python that marks its collections."""
    found = next((path for path in PYTHONS if marks_collections(path)), None)
    if found is None:
        pytest.skip("no Python here marks its collections")
    return found


@pytest.mark.spec("RTM-1")
def test_each_collection_is_one_that_python_tells_of(omn: Command, python: str, tmp_path: Path) -> None:
    """Within the two calls of its callback, of that generation, with as many objects; nothing is lost."""
    out = tmp_path / "told"
    ran = omn("runtime.gc", "-e", "raw", "--format", "json", "--", python, "-I", "-S", "-c", SOURCE, str(out))
    assert ran.code == 0, ran.stderr
    told = json.loads(out.read_text())
    assert [count for phase, _, _, count in told if phase == "stop"] == [10] * 4
    pauses = [
        (row["ts_ns"] - row["attrs"]["pause_ns"], row["ts_ns"], row["attrs"]["generation"], row["attrs"]["collected"])
        for row in ran.result["raw"]
    ]
    for (_, began_ns, generation, _), (_, ended_ns, _, count) in zip(told[::2], told[1::2], strict=True):
        within = [one for one in pauses if began_ns <= one[0] and one[1] <= ended_ns]
        assert [one[2:] for one in within] == [(generation, count)]
    assert ran.result["losses"]["dropped"] == 0
    assert ran.result["fields"]["unfinished"] == 0


def test_a_program_of_no_python_is_refused_or_said(omn: Command, python: str) -> None:
    """One that runs is refused; one that is launched runs, and the answer says that there was no such place."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
        assert cat.stdin is not None
        ran = omn("runtime.gc", "-e", "raw", "--pid", str(cat.pid), "-d", "1s")
        cat.stdin.close()
    assert (ran.code, "marks its collections of garbage" in " ".join(ran.stderr.split())) == (1, True), ran.stderr
    ran = omn("runtime.gc", "-e", "raw", "--format", "json", "--", "true")
    assert (ran.code, ran.result["raw"]) == (0, [])
    assert any("marks its collections of garbage" in one for one in ran.result["degraded"])
