"""A program that divides its time seven to three, in no step with any clock, and what a profile says of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiled import compile_c

from omn_core.testing.fixtures import Command

SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
volatile uint64_t sink;
static uint64_t state = 88172645463325252;
static unsigned long turned[2];

static unsigned next(unsigned below) /* xorshift */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 20) % below;
}

__attribute__((noinline, noclone)) void turn(int n)
{
#ifdef FRAMED /* a function that calls nobody has no frame otherwise */
    sink += (uint64_t)__builtin_frame_address(0);
#endif
    for (int i = 0; i < n; i++)
        sink += i;
}
__attribute__((noinline, noclone)) int seventy(int n) { turn(n); return turned[0] += n; }
__attribute__((noinline, noclone)) int thirty(int n) { turn(n); return turned[1] += n; }
__attribute__((noinline, noclone)) int pad(int n) { turn(n); return n; }

int main(int count, char **words)
{
    const double seconds = atof(words[count - 1]);
    struct timespec now;

    do {
        /* Parts of any length, a pad of as much as a period between them. */
        int part = 20000 + next(200000);
        seventy(part * 7);
        pad(next(1000000));
        thirty(part * 3);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
    return turned[0] * 3 != turned[1] * 7;
}
"""

FLAGS: Mapping[str, tuple[str, ...]] = {
    "fp": ("-fno-omit-frame-pointer", "-DFRAMED"),
    "fp+leaf": ("-fno-omit-frame-pointer",),
    "dwarf": ("-fomit-frame-pointer",),
}
"""What a program is built with for each walk to find its callers."""


def profile_shares(omn: Command, folder: Path, walk: str, hz: int, seconds: float) -> tuple[float, Any]:
    """Profile the program, walked one way. Returns the share of the larger part, and the result."""
    program = compile_c(folder, "shares", SOURCE, "-O2", *FLAGS[walk])
    asked = ("--stack", walk, "--hz", str(hz), "--format", "json")
    # They are seconds of its own cpu, of which a busy machine has a small share to give.
    done = omn("cpu.profile", *asked, "--", str(program), str(seconds), timeout_s=60 + 30 * seconds)
    assert done.document["program"]["exit"] == {"code": 0}
    rows = done.result["series"][0]["emits"]["stack"]["rows"]
    weights = dict.fromkeys(("seventy", "thirty"), 0)
    for row in rows:
        for frame in row["frames"]:
            name = frame.removesuffix(" [recovered]")
            if name in weights:
                weights[name] += row["weight"]
    return weights["seventy"] / sum(weights.values()), done.result
