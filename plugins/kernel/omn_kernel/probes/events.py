"""perf events and the units that count them: each is asked by opening it, disabled. See perf_event_open(2)."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

import attrs

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.native import calls
from omn_kernel.polled import read_file
from omn_kernel.privileges import refuse_permission
from omn_kernel.probes.tracepoints import read_tracepoint_id, read_unit_type
from omn_kernel.sysfs import read_cpus

_REFUSED = frozenset({errno.EACCES, errno.EPERM})
_ABSENT = frozenset({errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_MACHINE_WIDE = frozenset({"system", "cpu", "cgroup", "container"})

SOFTWARE: Mapping[str, int] = {
    "cpu-clock": 0,
    "task-clock": 1,
    "page-faults": 2,
    "context-switches": 3,
    "cpu-migrations": 4,
    "minor-faults": 5,
    "major-faults": 6,
    "alignment-faults": 7,
    "emulation-faults": 8,
    "dummy": 9,
    "bpf-output": 10,
    "cgroup-switches": 11,
}
"""enum perf_sw_ids of <linux/perf_event.h>, by the names perf lists them under."""

HARDWARE: Mapping[str, int] = {
    "cycles": 0,
    "instructions": 1,
    "cache-references": 2,
    "cache-misses": 3,
    "branches": 4,
    "branch-misses": 5,
    "bus-cycles": 6,
    "stalled-cycles-frontend": 7,
    "stalled-cycles-backend": 8,
    "ref-cycles": 9,
}
"""enum perf_hw_id of <linux/perf_event.h>, by the names perf lists them under."""

_KERNEL_RAISED = frozenset({"context-switches", "cpu-migrations", "cgroup-switches", "bpf-output", "dummy"})
"""Software events that only the kernel's own code raises: with the kernel left out they never count."""


@attrs.frozen
class _Event:
    """What to open: the unit's number, the event's, and whether user mode alone still counts it."""

    kind: int
    config: int
    spelling: str
    counts_in_user_mode: bool = True


def probe_perf(need: Need, context: ProbeContext) -> Probe:
    """Answer `perf:sw:page-faults`, on a task, or on a cpu for a target that spans tasks, by opening the event.

    `sw`, `hw` and `raw` without an event ask the first of their kind. A unit the kernel lists (`kprobe`, `uprobe`)
    is asked by its presence and the right to open on it.
    """
    group, _, name = need.argument.partition(":")
    if group in ("kprobe", "uprobe"):
        return _probe_dynamic(group, context)
    event = _find_event(group, name, context)
    return event if isinstance(event, Probe) else _open(event, context)


def _find_event(group: str, name: str, context: ProbeContext) -> _Event | Probe:
    if group == "sw" and (name or "cpu-clock") in SOFTWARE:
        name = name or "cpu-clock"
        kind = calls.constant("PERF_TYPE_SOFTWARE") or 0
        return _Event(kind, SOFTWARE[name], f"software event {name}", name not in _KERNEL_RAISED)
    if group == "hw" and (name or "cycles") in HARDWARE:
        name = name or "cycles"
        return _Event(calls.constant("PERF_TYPE_HARDWARE") or 0, HARDWARE[name], f"hardware event {name}")
    if group == "raw":
        try:
            return _Event(calls.constant("PERF_TYPE_RAW") or 0, int(name or "0", 16), f"raw event {name}".strip())
        except ValueError:
            return Probe(State.UNKNOWN, f"{name!r} is no raw event in hexadecimal")
    if group == "tracepoint" and name:
        number = read_tracepoint_id(name, context.sysroot)
        if isinstance(number, Probe):
            return number
        return _Event(calls.constant("PERF_TYPE_TRACEPOINT") or 0, number, f"tracepoint {name}", False)
    return Probe(State.UNKNOWN, f"this build knows no perf event {group}:{name}")


def _open(event: _Event, context: ProbeContext) -> Probe:
    pid, cpu = 0, -1
    if context.target in _MACHINE_WIDE:
        pid, cpu = -1, _first_cpu(context)
    try:
        os.close(calls.open_perf_event(event.kind, event.config, pid=pid, cpu=cpu))
    except OSError as error:
        if error.errno not in _REFUSED:
            return _refuse(event.spelling, error)
        refusal = error
    else:
        return AVAILABLE
    if event.counts_in_user_mode and pid == 0:
        try:
            os.close(calls.open_perf_event(event.kind, event.config, pid=pid, cpu=cpu, exclude_kernel=True))
        except OSError as error:
            if error.errno not in _REFUSED:
                return _refuse(event.spelling, error)
            refusal = error
        else:
            return Probe(State.AVAILABLE, f"in user mode alone ({_describe_paranoia()})")
    return _restrict(event.spelling, refusal)


def _refuse(spelling: str, error: OSError) -> Probe:
    if error.errno in _ABSENT:
        return Probe(State.MISSING, f"this machine does not count the {spelling} ({error.strerror})")
    return Probe(State.UNKNOWN, f"the {spelling} answers {error.strerror}")


def _restrict(spelling: str, error: OSError) -> Probe:
    answer = refuse_permission(f"the {spelling}", "perfmon", error)
    return attrs.evolve(answer, reason=f"{answer.reason} ({_describe_paranoia()})")


def _describe_paranoia() -> str:
    try:
        level = read_file("/", "/proc/sys/kernel/perf_event_paranoid").decode().strip()
    except OSError:
        return "perf events are restricted"
    return f"kernel.perf_event_paranoid is {level}"


def _first_cpu(context: ProbeContext) -> int:
    try:
        return read_cpus(context.sysroot, "online")[0]
    except (OSError, IndexError):
        return 0


def _probe_dynamic(group: str, context: ProbeContext) -> Probe:
    """Ask a unit whose events name a file or function, with a name that does not exist: it is looked for last."""
    try:
        kind = read_unit_type(context.sysroot, group)
    except FileNotFoundError:
        return Probe(State.MISSING, f"this kernel is built without {group}s")
    except OSError as error:
        return Probe(State.UNKNOWN, f"the {group} unit answers {error.strerror}")
    try:
        os.close(calls.open_perf_event(kind, 0, pid=-1, cpu=_first_cpu(context), path="/nonexistent_omn"))
    except OSError as error:
        if error.errno in _REFUSED:
            return _restrict(f"{group} event", error)
        if error.errno in (errno.ENOENT, errno.EADDRNOTAVAIL, errno.EINVAL):
            return AVAILABLE
        return Probe(State.UNKNOWN, f"a {group} event answers {error.strerror}")
    return Probe(State.UNKNOWN, f"the kernel opened a {group} on what does not exist")


def probe_uprobe(_need: Need, context: ProbeContext) -> Probe:
    """Answer whether a program's functions can be probed: the unit is there and this user may open on it."""
    return _probe_dynamic("uprobe", context)


def probe_pmu(need: Need, context: ProbeContext) -> Probe:
    """Answer `pmu:msr`: whether the kernel lists that unit."""
    try:
        read_unit_type(context.sysroot, need.argument)
    except FileNotFoundError:
        return Probe(State.MISSING, f"this machine has no performance unit {need.argument}")
    except (OSError, ValueError) as error:
        return Probe(State.UNKNOWN, f"the performance unit {need.argument} cannot be read: {error}")
    return AVAILABLE
