"""Threads that wait in a futex call before anybody looks: found in /proc when a measurement begins."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from omn_kernel.polled import read_file
from omn_kernel.procfs.process import find_folder

from omn_sched.programs.futex import COMMAND, SEVERAL, WAITING, WAITS, find_calls


@attrs.frozen
class Wait:
    """What a thread waits in: the operation, the address, and where its stack stood, which tells one wait of another.

    The address is 0 where it is not told: a wait for several has them in the program's own memory.
    """

    operation: int
    address: int
    stack_pointer: int


def parse_wait(content: bytes) -> Wait | None:
    """Parse the call that a thread sleeps in (/proc/<pid>/task/<tid>/syscall of proc(5)), None where it is no wait."""
    words = content.split()
    if len(words) != 9:  # it runs, or sleeps in no call
        return None
    number, (address, command) = int(words[0]), (int(word, 16) for word in words[1:3])
    calls = {**find_calls(is_compat=True, with_wakes=False), **find_calls(is_compat=False, with_wakes=False)}
    if number not in calls:
        return None
    known = calls[number]
    operation = command & COMMAND if known is None else known
    if operation not in WAITS:
        return None
    return Wait(operation, 0 if operation == SEVERAL else address, int(words[7], 16))


def find_wait(process: int, thread: int) -> Wait | None:
    """Find what a thread waits in, None where it waits for no futex, is gone, or is closed to this user."""
    try:
        return parse_wait(read_file("/", f"{find_folder(process, thread)}/syscall"))
    except OSError:
        return None


def make_waiter(layout: np.dtype[Any], process: int, wait: Wait, now_ns: int) -> npt.NDArray[Any]:
    """Make the record of a thread that waits from now on, with no stack."""
    row = np.zeros((), layout)
    row["began_ns"], row["process"], row["result"] = now_ns, process, WAITING
    row["op"], row["addr"] = wait.operation, wait.address
    row["kernel_stack"] = row["user_stack"] = -1
    return row
