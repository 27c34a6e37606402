"""Programs attached to what they were loaded for. A link ends when it is closed; nothing is pinned."""

from __future__ import annotations

import fcntl
import os
from typing import TypeAlias

import attrs

from omn_core.api import MachineRefused, Probe
from omn_kernel.bpf.descriptors import Descriptor
from omn_kernel.bpf.hooks import (
    Function,
    KernelProbe,
    Overflow,
    RawTracepoint,
    Tracepoint,
    TypedTracepoint,
    UserProbe,
    UserProbes,
)
from omn_kernel.bpf.loading import LoadedProgram
from omn_kernel.bpf.refusals import refuse_program
from omn_kernel.native import calls
from omn_kernel.native._perf import lib
from omn_kernel.perf.attributes import EventAttributes, Place, open_event
from omn_kernel.probes.tracepoints import read_tracepoint_id, read_unit_type
from omn_kernel.sysfs import read_cpus

AnyHook: TypeAlias = (
    RawTracepoint | TypedTracepoint | Function | Tracepoint | KernelProbe | UserProbe | UserProbes | Overflow
)
_RETURNS = 1
"""The bit of a probe's event that puts it on the return (format/retprobe of its unit)."""
_COUNTER_BIT = 32
"""Where in it the counter stands (format/ref_ctr_offset)."""


class Link(Descriptor):
    """A program at its hook: it runs there until this is closed."""


def attach(program: LoadedProgram, hook: AnyHook) -> Link:
    """Attach a program to the hook that it was loaded for. Raises MachineRefused where the kernel has none such."""
    try:
        return Link(_attach(program.descriptor, hook))
    except OSError as error:
        raise refuse_program(f"attachment to {hook.spelling}", error) from None


def _attach(program: int, hook: AnyHook) -> int:
    match hook:
        case RawTracepoint():
            return calls.open_raw_tracepoint(program, hook.name)
        case TypedTracepoint() | Function():
            return calls.open_raw_tracepoint(program)
        case UserProbes():
            return calls.link_uprobe_multi(
                program, hook.path, hook.offsets, hook.cookies, pid=hook.pid or 0, is_return=hook.is_return
            )
        case Overflow():
            return _attach_to_event(program, hook.event, hook.place)
        case Tracepoint():
            number = read_tracepoint_id(hook.name, "/")
            if isinstance(number, Probe):
                raise MachineRefused(number.reason or hook.spelling, number.remedy)
            return _attach_to_event(program, EventAttributes(lib.PERF_TYPE_TRACEPOINT, number), _find_machine())
        case KernelProbe():
            event = EventAttributes(read_unit_type("/", "kprobe"), _RETURNS * hook.is_return, hook.function)
            return _attach_to_event(program, event, _find_machine())
        case UserProbe():
            kind = read_unit_type("/", "uprobe")
            config = _RETURNS * hook.is_return | hook.counter << _COUNTER_BIT
            event = EventAttributes(kind, config, hook.path, path_offset=hook.offset)
            place = _find_machine() if hook.pid is None else Place(pid=hook.pid)
            return _attach_to_event(program, event, place)


def _find_machine() -> Place:
    """Find a cpu for an event of the whole machine: its program runs on each, whichever cpu the event is of."""
    return Place(cpu=read_cpus("/", "online")[0])


def _attach_to_event(program: int, event: EventAttributes, place: Place) -> int:
    opened = open_event(attrs.evolve(event, is_disabled=True), place)
    try:
        fcntl.ioctl(opened, lib.PERF_EVENT_IOC_SET_BPF, program)
        fcntl.ioctl(opened, lib.PERF_EVENT_IOC_ENABLE, 0)
    except OSError:
        os.close(opened)
        raise
    return opened
