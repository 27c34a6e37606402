"""A program that does the same in a cgroup, in one below it and in one beside it, and what sources say of the first."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from event_backends import RECORDED, TYPED

from omn_core.testing.fixtures import Command, remove_cgroup

_PROGRAM = """
import os, sys
work, *folders = sys.argv[1:]
for folder in folders:
    if (child := os.fork()) == 0:
        with open(f"{folder}/cgroup.procs", "w") as file:
            file.write("0")
        exec(work)
        os._exit(0)
    os.waitpid(child, 0)
"""


@contextmanager
def three_cgroups(make_cgroup: Callable[[str], Path]) -> Iterator[tuple[Path, Path, Path]]:
    """Make a cgroup of cgroup2, one below it and one beside it."""
    inside, beside = make_cgroup("unified"), make_cgroup("unified")
    below = inside / "below"
    below.mkdir()
    try:
        yield inside, below, beside
    finally:
        remove_cgroup(below)


def ask_of_cgroup(
    omn: Command, make_cgroup: Callable[[str], Path], work: str, asked: Sequence[dict[str, Any]]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Run work in all three cgroups, and ask of the first by the kernel's types and by records: an answer of each."""
    with three_cgroups(make_cgroup) as folders:
        target = {"cgroup": f"/{folders[0].name}"}
        requests = [{**one, "backend": backend, "target": target} for one in asked for backend in (TYPED, RECORDED)]
        launch = [sys.executable, "-S", "-c", _PROGRAM, work, *map(str, folders)]
        ran = omn("-f", "-", "--format", "json", stdin=json.dumps({"launch": launch, "requests": requests}).encode())
    assert ran.code == 0, ran.stderr
    results = ran.document["results"]
    for result in results:
        assert result["backend"] == RECORDED or _count_missing(result) == 0, result["losses"]
    return list(zip(results[::2], results[1::2], strict=True))


def has_all(result: dict[str, Any], seen: int, made: int) -> bool:
    """Tell whether an answer has all that was made, but for what it says that it misses.

    Records miss those that the kernel passed over, and blocks that ended where it hid the task before from tracepoints.
    """
    return made - _count_missing(result) <= seen <= made


def _count_missing(result: dict[str, Any]) -> int:
    return int(result["losses"]["skipped"]) + int(result["losses"]["dropped"])


def read_count(result: dict[str, Any], figure: str = "value") -> int:
    """Read the count of an answer without keys."""
    (series,) = result["series"]
    return int(series["emits"]["count"][figure])
