"""Classic tracepoints, and probes on kernel functions through perf events."""

from __future__ import annotations

import errno
import os

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.mounts import find_tracefs
from omn_kernel.perf.attributes import EventAttributes, Place, open_event
from omn_kernel.polled import place, read_file
from omn_kernel.privileges import refuse_permission

DEVICES = "/sys/bus/event_source/devices"
"""Where the kernel lists the units that count events; each folder's `type` is its number."""


def read_unit_type(sysroot: str, name: str) -> int:
    """Read the number of a performance unit. Raises FileNotFoundError where the machine has none of that name."""
    return int(read_file(sysroot, f"{DEVICES}/{name}/type"))


def read_tracepoint_id(name: str, sysroot: str) -> int | Probe:
    """Read the number of a classic tracepoint (`sched/sched_switch`), or what stands between."""
    mounted = find_tracefs(sysroot)
    if mounted is None:
        return Probe(
            State.MISSING, "tracefs is not mounted", "mount it as root: mount -t tracefs tracefs /sys/kernel/tracing"
        )
    try:
        return int(read_file(sysroot, f"{mounted}/events/{name}/id"))
    except PermissionError as error:
        return refuse_permission(f"{mounted}/events", "dac_read_search", error)
    except FileNotFoundError:
        if os.access(place(sysroot, f"{mounted}/events"), os.X_OK):
            return Probe(State.MISSING, f"this kernel has no tracepoint {name}")
        return Probe(State.MISSING, f"{mounted} holds no events on this kernel")
    except OSError as error:
        return Probe(State.UNKNOWN, f"the tracepoint {name} answers {error.strerror}")


def probe_tracepoint(need: Need, context: ProbeContext) -> Probe:
    """Answer `tp:sched/sched_switch` from tracefs, which is used where it is mounted and never mounted from here."""
    found = read_tracepoint_id(need.argument, context.sysroot)
    return found if isinstance(found, Probe) else AVAILABLE


def probe_kprobe(need: Need, context: ProbeContext) -> Probe:
    """Answer `kprobe:vfs_read` by opening a disabled event on that function."""
    try:
        kind = read_unit_type(context.sysroot, "kprobe")
    except FileNotFoundError:
        return Probe(State.MISSING, "this kernel is built without kprobes")
    except OSError as error:
        return Probe(State.UNKNOWN, f"the kprobe unit answers {error.strerror}")
    try:
        os.close(open_event(EventAttributes(kind, 0, need.argument, is_disabled=True), Place(cpu=0)))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            return refuse_permission(f"a probe on {need.argument}", "perfmon", error)
        if error.errno in (errno.ENOENT, errno.EADDRNOTAVAIL):
            return Probe(State.MISSING, f"this kernel has no function {need.argument}")
        if error.errno == errno.EINVAL:
            return Probe(State.MISSING, f"the kernel lets no probe stand on {need.argument}")
        return Probe(State.UNKNOWN, f"a probe on {need.argument} answers {error.strerror}")
    return AVAILABLE
