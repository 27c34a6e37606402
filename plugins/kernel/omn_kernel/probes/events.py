"""perf events and the units that count them: each is asked by opening it, disabled. See perf_event_open(2)."""

from __future__ import annotations

import errno
import os

import attrs

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.cgroup import CgroupPlace
from omn_kernel.native._perf import lib
from omn_kernel.perf.attributes import EventAttributes, Place, open_event
from omn_kernel.perf.cgroups import find_cgroup_folder
from omn_kernel.perf.events import PerfEvent, Raised, find_event
from omn_kernel.perf.paranoia import describe_paranoia
from omn_kernel.perf.units import find_unit_cpus, read_unit_event
from omn_kernel.privileges import refuse_permission
from omn_kernel.probes.tracepoints import read_tracepoint_id, read_unit_type
from omn_kernel.sysfs import read_cpus

_REFUSED = frozenset({errno.EACCES, errno.EPERM})
_ABSENT = frozenset({errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_MACHINE_WIDE = frozenset({"system", "cpu", "cgroup", "container"})
_FIRST = {"sw": "cpu-clock", "hw": "cycles"}


def probe_perf(need: Need, context: ProbeContext) -> Probe:
    """Answer `perf:sw:page-faults`, on a task, or on a cpu for a target that spans tasks, by opening the event.

    `sw`, `hw` and `raw` without an event ask the first of their kind. A unit the kernel lists (`kprobe`, `uprobe`)
    is asked by its presence and the right to open on it.
    """
    if context.sysroot not in ("/", ""):
        return Probe(State.MISSING, "perf events are this machine's, and a folder stands in for it")
    group, _, name = need.argument.partition(":")
    if group in ("kprobe", "uprobe"):
        return _probe_dynamic(group, context)
    event = _find_event(group, name, context)
    return event if isinstance(event, Probe) else _open(event, context)


def _find_event(group: str, name: str, context: ProbeContext) -> PerfEvent | Probe:
    named = find_event(group, name or _FIRST.get(group, ""))
    if named is not None:
        return named
    if group == "raw":
        try:
            return PerfEvent(lib.PERF_TYPE_RAW, int(name or "0", 16), f"raw event {name}".strip())
        except ValueError:
            return Probe(State.UNKNOWN, f"{name!r} is no raw event in hexadecimal")
    if group == "tracepoint" and name:
        number = read_tracepoint_id(name, context.sysroot)
        if isinstance(number, Probe):
            return number
        return PerfEvent(lib.PERF_TYPE_TRACEPOINT, number, f"tracepoint {name}", Raised.KERNEL)
    return Probe(State.UNKNOWN, f"this build knows no perf event {group}:{name}")


def _open(event: PerfEvent, context: ProbeContext) -> Probe:
    if isinstance(context.place, CgroupPlace):
        return _open_for_cgroup(event, context.place, context)
    is_of_cpus = context.target in _MACHINE_WIDE
    if is_of_cpus:
        return _open_at(event, Place(cpu=_first_cpu(context)))
    return _open_on_tasks(event, context)


def _open_on_tasks(event: PerfEvent, context: ProbeContext) -> Probe:
    """Ask on each task that is named, since another user's may be closed, and on omn's own where none of them is.

    One that has ended says nothing of the event: the run refuses it by name.
    """
    for task in context.tasks:
        answer = _open_at(event, Place(pid=task))
        if answer.state is State.RESTRICTED:
            return answer
    return _open_at(event, Place(pid=0))


def _open_for_cgroup(event: PerfEvent, cgroup: CgroupPlace, context: ProbeContext) -> Probe:
    folder = find_cgroup_folder(cgroup)
    if folder is None:
        return Probe(State.MISSING, f"cgroup {cgroup.path!r} stands in no hierarchy that perf events count by")
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _open_at(event, Place(number, _first_cpu(context), is_cgroup=True))
    finally:
        os.close(number)


def _open_at(event: PerfEvent, place: Place) -> Probe:
    try:
        os.close(open_event(EventAttributes.to_ask(event), place))
    except OSError as error:
        if error.errno not in _REFUSED:
            return _refuse(event.spelling, error)
        refusal = error
    else:
        return AVAILABLE
    if event.raised is not Raised.KERNEL and place.is_task:
        try:
            os.close(open_event(EventAttributes.to_ask(event, exclude_kernel=True), place))
        except OSError as error:
            if error.errno not in _REFUSED:
                return _refuse(event.spelling, error)
            refusal = error
        else:
            return Probe(State.AVAILABLE, f"in user mode alone ({describe_paranoia()})")
    return _restrict(event.spelling, refusal)


def _refuse(spelling: str, error: OSError) -> Probe:
    if error.errno in _ABSENT:
        return Probe(State.MISSING, f"this machine does not count the {spelling} ({error.strerror})")
    return Probe(State.UNKNOWN, f"the {spelling} answers {error.strerror}")


def _restrict(spelling: str, error: OSError) -> Probe:
    answer = refuse_permission(f"the {spelling}", "perfmon", error)
    return attrs.evolve(answer, reason=f"{answer.reason} ({describe_paranoia()})")


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
        attributes = EventAttributes(kind, 0, "/nonexistent_omn", is_disabled=True)
        os.close(open_event(attributes, Place(cpu=_first_cpu(context))))
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
    """Answer `pmu:msr`: whether the kernel lists that unit; `pmu:msr:tsc`: whether that event of it opens on a cpu."""
    unit, _, name = need.argument.partition(":")
    try:
        if not name:
            read_unit_type(context.sysroot, unit)
            return AVAILABLE
        event = read_unit_event(context.sysroot, unit, name).event
        cpus = find_unit_cpus(context.sysroot, unit)
    except FileNotFoundError:
        lacking = f"event {name} of a performance unit {unit}" if name else f"performance unit {unit}"
        return Probe(State.MISSING, f"this machine has no {lacking}")
    except (OSError, ValueError, KeyError) as error:
        return Probe(State.UNKNOWN, f"the performance unit {unit} cannot be read: {error}")
    if context.sysroot not in ("/", ""):
        return Probe(State.MISSING, "perf events are this machine's, and a folder stands in for it")
    return _open_at(event, Place(cpu=cpus[0] if cpus else _first_cpu(context)))
