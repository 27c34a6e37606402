"""What an event is opened with, by name, and the opening itself. See perf_event_open(2)."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Self

import attrs

from omn_kernel.native._perf import ffi, lib
from omn_kernel.perf.events import SOFTWARE, PerfEvent

_NEVER = (1 << 31) - 1
DEFAULT_HZ = 997
"""A prime, so that what a program does at round rates does not fall into step with it."""

READ_WORDS = 3
"""What reading a counter gives: its count, and the nanoseconds that it was enabled and that it ran. Where the event was
opened so (`reads_lost`) one more follows: how many records of it found no room in their ring."""


@attrs.frozen(repr=False)
class Place:
    """Where an event counts: on a task (`pid` 0 is the caller), on a cpu, or for a cgroup on a cpu.

    For a cgroup `pid` is a descriptor of its folder, in the hierarchy that has the perf_event controller.
    """

    pid: int = -1
    cpu: int = -1
    is_cgroup: bool = False

    @property
    def is_task(self) -> bool:
        """Whether it is a task, wherever that runs or on one cpu."""
        return self.pid >= 0 and not self.is_cgroup


@attrs.frozen(repr=False)
class Sampling:
    """How an event is sampled: so often a second (`hz`), or once in so many (`period`), one of the two.

    `has_chains` asks for the callers of each, up to `max_stack` frames of them (0: as many as the kernel allows), those
    in the program too unless `excludes_user_chains`. `copies_registers` takes the program's registers along, and
    `stack_bytes` so many of its stack's. `has_accesses` asks for the address that each accessed, where the event is one
    of memory, `has_streams` for the number of the very event that wrote it: each that is inherited has one of its own.
    `records_tasks` asks for what tasks do besides: start, end, take names, map code.
    """

    hz: int | None = None
    period: int | None = None
    has_chains: bool = False
    max_stack: int = 0
    has_accesses: bool = False
    has_streams: bool = False
    records_tasks: bool = False
    excludes_user_chains: bool = False
    copies_registers: bool = False
    stack_bytes: int = 0

    @property
    def states_periods(self) -> bool:
        """Whether each sample says what it stands for: not where that is fixed.

        Of a software event the kernel would make every occurrence a sample of one then, whatever the period.
        """
        return self.hz is not None


@attrs.frozen(repr=False)
class EventAttributes:
    """The fields of struct perf_event_attr that omn sets; what is not here is zero.

    `path` is the file or function of a probe's event, whose address stands in config1, and `path_offset` where in it.
    `inherits` counts what the task starts from then on, `enable_on_exec` begins at its next execve. `sampling` makes it
    write records, and `reads_lost` has the kernel count those that find no room, where it does (`can_read_lost`).
    """

    kind: int
    config: int
    path: str | None = None
    path_offset: int = 0
    is_disabled: bool = False
    inherits: bool = False
    enable_on_exec: bool = False
    exclude_kernel: bool = False
    reads_times: bool = False
    reads_lost: bool = False
    sampling: Sampling | None = None

    @classmethod
    def to_ask(cls, event: PerfEvent, *, exclude_kernel: bool = False) -> Self:
        """Make those of an event that is opened to learn whether it can be, and never counts."""
        return cls(event.kind, event.config, is_disabled=True, exclude_kernel=exclude_kernel)

    def to_flags(self) -> int:
        """Return the bit fields as the native module takes them."""
        flags = [
            (self.is_disabled, lib.OMN_EVENT_DISABLED),
            (self.inherits, lib.OMN_EVENT_INHERIT),
            (self.enable_on_exec, lib.OMN_EVENT_ENABLE_ON_EXEC),
            (self.exclude_kernel, lib.OMN_EVENT_EXCLUDE_KERNEL),
        ]
        sampling = self.sampling
        if sampling is not None:
            flags += [
                (sampling.hz is not None, lib.OMN_EVENT_FREQUENCY),
                (sampling.excludes_user_chains, lib.OMN_EVENT_EXCLUDE_USER_CHAIN),
                (sampling.records_tasks, lib.OMN_EVENT_RECORDS_TASKS | lib.OMN_EVENT_RECORDS_MAPPINGS),
            ]
        return sum(bit for is_set, bit in flags if is_set)


def _spell_sampling(sampling: Sampling) -> dict[str, int]:
    periods = lib.PERF_SAMPLE_PERIOD if sampling.states_periods else 0
    chains = lib.PERF_SAMPLE_CALLCHAIN if sampling.has_chains else 0
    accesses = lib.PERF_SAMPLE_ADDR if sampling.has_accesses else 0
    streams = lib.PERF_SAMPLE_STREAM_ID if sampling.has_streams else 0
    registers = lib.PERF_SAMPLE_REGS_USER if sampling.copies_registers else 0
    stacks = lib.PERF_SAMPLE_STACK_USER if sampling.stack_bytes else 0
    return {
        "sample_period": sampling.hz or sampling.period or 0,
        "sample_type": lib.OMN_SAMPLE_TYPE | periods | chains | accesses | streams | registers | stacks,
        "user_registers": lib.OMN_REGISTER_MASK if sampling.copies_registers else 0,
        "user_stack_bytes": sampling.stack_bytes,
        # A ring is emptied on time and nobody waits for it: the kernel need not wake anyone at each record.
        "wakeup_bytes": _NEVER,
        "max_stack": sampling.max_stack,
    }


def open_event(attributes: EventAttributes, place: Place) -> int:
    """Open an event and return its descriptor. Raises OSError as perf_event_open(2) does."""
    text = ffi.NULL
    if attributes.path is not None:
        text = ffi.new("char[]", attributes.path.encode("utf-8", "surrogateescape"))
    times = lib.PERF_FORMAT_TOTAL_TIME_ENABLED | lib.PERF_FORMAT_TOTAL_TIME_RUNNING
    lost = lib.OMN_FORMAT_LOST if attributes.reads_lost else 0
    sampling = attributes.sampling
    event = ffi.new(
        "struct omn_event *",
        {
            "kind": attributes.kind,
            "flags": attributes.to_flags(),
            "config": attributes.config,
            "config1": int(ffi.cast("uintptr_t", text)),
            "config2": attributes.path_offset,
            "read_format": (times if attributes.reads_times else 0) | lost,
            **({} if sampling is None else _spell_sampling(sampling)),
        },
    )
    return _open(event, place)


@cache
def can_read_lost() -> bool:
    """Tell whether the kernel counts the records of an event that found no room (PERF_FORMAT_LOST, since Linux 6.0)."""
    dummy = SOFTWARE["dummy"]
    attributes = EventAttributes(
        lib.PERF_TYPE_SOFTWARE, dummy, is_disabled=True, exclude_kernel=True, reads_times=True, reads_lost=True
    )
    try:
        os.close(open_event(attributes, Place(0)))
    except OSError:
        return False
    return True


def open_output(cpu: int) -> int:
    """Open the event that eBPF programs on a cpu write their records to. Raises OSError as perf_event_open(2) does."""
    event = ffi.new(
        "struct omn_event *",
        {
            "kind": lib.PERF_TYPE_SOFTWARE,
            "config": SOFTWARE["bpf-output"],
            "sample_period": 1,
            "sample_type": lib.PERF_SAMPLE_RAW,
            "wakeup_bytes": _NEVER,
        },
    )
    return _open(event, Place(cpu=cpu))


def _open(event: Any, place: Place) -> int:
    opened: int = lib.omn_event_open(event, place.pid, place.cpu, int(place.is_cgroup))
    if opened < 0:
        raise OSError(-opened, os.strerror(-opened))
    return opened
