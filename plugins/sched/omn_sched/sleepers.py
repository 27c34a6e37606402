"""Threads that are off the cpu before anybody looks: found in /proc when a measurement begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from omn_kernel.bpf.target_tasks import TargetTasks
from omn_kernel.polled import read_file
from omn_kernel.procfs.process import ProcessGone, find_folder, list_threads, read_stat
from omn_kernel.procfs.task import parse_schedstat

from omn_core.api import BoundTarget

_STATES = {"S": 0x1, "D": 0x2, "T": 0x4, "t": 0x8, "I": 0x402, "P": 0x40}
"""The kernel's number of each letter of /proc/<pid>/stat for a thread that is not ready to run (proc(5))."""


def list_tasks(target: BoundTarget, tasks: TargetTasks) -> Iterator[tuple[int, int]]:
    """Yield the processes and threads of a target of processes, or of one thread; none of any other."""
    if target.tid is not None:
        yield from ((handle.pid, target.tid) for handle in target.processes)
        return
    for process in tasks.list_processes():
        try:
            threads = list_threads("/", process)
        except ProcessGone:
            continue
        yield from ((process, thread) for thread in threads)


def is_off_cpu(process: int, thread: int) -> bool:
    """Tell whether a thread waits for something else than a cpu."""
    try:
        return read_stat("/", process, thread).state in _STATES
    except ProcessGone:
        return False


def make_sleeper(layout: np.dtype[Any], process: int, thread: int, now_ns: int) -> npt.NDArray[Any] | None:
    """Make the record of a thread that is off the cpu from now on, with no stack; None for one that is not, or gone."""
    try:
        state = _STATES.get(read_stat("/", process, thread).state)
        account = parse_schedstat(read_file("/", f"{find_folder(process, thread)}/schedstat"))
    except (ProcessGone, OSError, ValueError):
        return None
    if state is None:
        return None
    row = np.zeros((), layout)
    row["left_ns"], row["process"], row["state"] = now_ns, process, state
    row["waited_ns"] = account.wait_ns
    row["kernel_stack"] = row["user_stack"] = -1
    return row
