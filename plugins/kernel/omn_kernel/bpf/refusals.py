"""What refuses eBPF: the capability that is missing, the limit that is reached, the kernel that has no such thing."""

from __future__ import annotations

import errno
import os
import resource

from omn_core.api import MachineRefused
from omn_kernel.privileges import refuse_permission
from omn_kernel.release import parse_release

PERMISSION = frozenset({errno.EPERM, errno.EACCES})
_UNCHARGED = (5, 11, 0)


def find_memory_limit(error: OSError) -> str | None:
    """Find the limit that kernels before 5.11 charge eBPF to and refuse it by with EPERM; None where it is not that.

    Returns a clause that names it.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    release = parse_release(os.uname().release)
    if error.errno != errno.EPERM or soft == resource.RLIM_INFINITY or release is None or release >= _UNCHARGED:
        return None
    return f"this kernel charges maps and programs to the locked-memory limit, which is {soft} bytes"


RAISE_MEMORY_LIMIT = "raise the limit (ulimit -l unlimited)"


def refuse_map(name: str, error: OSError) -> MachineRefused:
    """Make the refusal of a map, by how bpf(2) refused it."""
    what = f"the eBPF map {name!r}"
    if error.errno in PERMISSION:
        return _refuse_permission(what, error)
    return MachineRefused(f"{what} cannot be made: {error.strerror}")


def _refuse_permission(what: str, error: OSError) -> MachineRefused:
    """Make the refusal of what takes a capability, or memory that a limit does not leave."""
    answer = refuse_permission(what, "bpf", error)
    limit = find_memory_limit(error)
    if limit is not None:
        return MachineRefused(f"{answer.reason}; {limit}", answer.remedy or RAISE_MEMORY_LIMIT)
    return MachineRefused(answer.reason or what, answer.remedy)


def refuse_program(what: str, error: OSError) -> MachineRefused:
    """Make the refusal of a program, or of its attachment, by how the kernel refused it."""
    if error.errno in PERMISSION:
        return _refuse_permission(f"the eBPF {what}", error)
    if error.errno == errno.EBUSY:
        return MachineRefused(f"the eBPF {what} is refused: it is being traced otherwise already")
    return MachineRefused(f"this kernel has no eBPF {what} ({error.strerror})")


def refuse_output(what: str, error: OSError) -> MachineRefused:
    """Make the refusal of the memory that programs write records to, by how the kernel refused it."""
    if error.errno in PERMISSION:
        answer = refuse_permission(f"the {what}", "perfmon", error)
        return MachineRefused(answer.reason or what, answer.remedy)
    return MachineRefused(f"the {what} cannot be opened: {error.strerror}")


def refuse_grace(error: OSError) -> MachineRefused:
    """Make the refusal of drains, where the kernel lets nobody wait for the programs that run."""
    if error.errno == errno.ENOSYS:
        return MachineRefused(
            "this kernel was built without membarrier(2), by which drained rows are known to be whole"
        )
    return MachineRefused(
        f"membarrier(2), by which drained rows are known to be whole, is refused: {error.strerror}",
        "start the kernel without nohz_full",
    )
