"""The harness as a process: started in omn's own terminal and group, told of when it ends, never told what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from omn_agent.harness import Harness
from omn_agent.recorder.clock import Timeline
from omn_core.api import Launched, LaunchPlan, RequestError, get_program, launch

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def find_harness(program: str) -> Harness:
    """Return the harness that a program's name is one's. Raises RequestError for another name."""
    name = os.path.basename(program)
    for harness in Harness:
        if name == harness.value:
            return harness
    raise RequestError(f"{program!r} is none of the harnesses' names", "say which it is with --harness")


def hold(argv: Sequence[str], environment: Mapping[str, str]) -> Launched:
    """Start a harness and hold it before its exec: it runs when it is released. Raises MachineRefused where it cannot.

    Nothing of it is left where it is never released: it ends with its recorder.
    """
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    return launch(LaunchPlan(get_program(argv[0]), tuple(argv), environment=encoded))


def reap(launched: Launched) -> int | None:
    """Return a harness's exit code, or minus the signal that ended it; None where it still runs."""
    pid, status = os.waitpid(launched.pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None


def read_start(pid: int, timeline: Timeline) -> int | None:
    """Return when a process started, on CLOCK_MONOTONIC, to a clock tick; None where it is no more.

    /proc/<pid>/stat, field 22, suspension included.
    """
    ticks = read_start_ticks(pid)
    return None if ticks is None else timeline.compute_from_boottime(ticks * 1_000_000_000 // _TICKS_PER_SECOND)


def read_start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot; None where it is no more."""
    fields = _read_stat(pid)
    return None if fields is None else int(fields[19])


def iter_ancestors(pid: int) -> Iterator[int]:
    """Yield a process's parent, that one's parent and so on, as far as they are there: /proc/<pid>/stat, field 4."""
    while (fields := _read_stat(pid)) is not None and int(fields[1]) > 0:
        pid = int(fields[1])
        yield pid


def read_usage(pid: int) -> tuple[int, int] | None:
    """Return a process's resident bytes and its CPU time in microseconds, None where it is no more.

    /proc/<pid>/stat, fields 24 (pages), 14 and 15 (clock ticks).
    """
    fields = _read_stat(pid)
    if fields is None:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), ticks * 1_000_000 // _TICKS_PER_SECOND


def _read_stat(pid: int) -> list[str] | None:
    """Return the fields from the third on: the second may hold anything, and ends at the last parenthesis."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None
