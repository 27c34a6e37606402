"""Profiles of programs whose calls are known, built where there is a compiler."""

from __future__ import annotations

import os

import pytest

from omn_core.testing.fixtures import Command

CALLS = ("leaf", "middle", "outer", "main")
LEAST_SAMPLES = 100


@pytest.mark.spec("KRN-9", "STK-1", "STK-2", "STK-3")
@pytest.mark.parametrize(("walk", "program"), [("fp", "keeping"), ("dwarf", "omitting")])
def test_the_stacks_of_a_profile_are_the_programs_calls(omn: Command, walk: str, program: str) -> None:
    """A chain of frame pointers where they are kept, and unwind information where they are not.

    Where a function has not yet set up its frame its caller is passed over by the former: a few instructions of many.
    """
    path = f"/portability/programs/{program}"
    asked = ("cpu.profile", "--stack", walk, "-e", "stack", "--format", "json")
    done = omn(*asked, "--", path, timeout_s=300, OMN_CACHE_DIR=os.environ["OMN_CACHE_DIR"])
    assert done.code == 0, done.stderr
    assert done.result["stacks"]["walk"] == walk
    (series,) = done.result["series"]
    rows = [row for row in series["emits"]["stack"]["rows"] if "leaf" in row["frames"]]
    found = {}
    for row in rows:
        place = row["frames"].index("leaf")
        assert (row["objects"][place], row["named_by"][place]) == (path, "symtab")
        outward = tuple(row["frames"][place:])
        found[outward] = found.get(outward, 0) + row["weight"]
    burning = sum(found.values())
    told = {frames: weight for frames, weight in found.items() if frames[: len(CALLS)] == CALLS}
    assert done.result["fields"]["delivered"] > LEAST_SAMPLES
    assert sum(told.values()) > (0.95 if walk == "fp" else 0.999) * burning, found
    assert burning > 0.5 * sum(row["weight"] for row in series["emits"]["stack"]["rows"])
    if walk == "dwarf":
        assert {frames[-1] for frames in told} == {"_start"}
