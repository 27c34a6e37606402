"""What an event is opened with, by name, and the opening itself. See perf_event_open(2)."""

from __future__ import annotations

import os
from typing import Self

import attrs

from omn_kernel.native._perf import ffi, lib
from omn_kernel.perf.events import PerfEvent

READ_WORDS = 3
"""What reading a counter gives: its count, and the nanoseconds that it was enabled and that it ran."""


@attrs.frozen
class Place:
    """Where an event counts: on a task (`pid` 0 is the caller), on a cpu, or for a cgroup on a cpu.

    For a cgroup `pid` is a descriptor of its folder, in the hierarchy that has the perf_event controller.
    """

    pid: int = -1
    cpu: int = -1
    is_cgroup: bool = False

    @property
    def is_task(self) -> bool:
        """Whether it is a task wherever it runs."""
        return self.cpu < 0


@attrs.frozen
class EventAttributes:
    """The fields of struct perf_event_attr that omn sets; what is not here is zero.

    `path` is the file or function of a probe's event, whose address stands in config1. `inherits` counts what the task
    starts from then on, `enable_on_exec` begins at its next execve.
    """

    kind: int
    config: int
    path: str | None = None
    is_disabled: bool = False
    inherits: bool = False
    enable_on_exec: bool = False
    exclude_kernel: bool = False
    reads_times: bool = False

    @classmethod
    def to_ask(cls, event: PerfEvent, *, exclude_kernel: bool = False) -> Self:
        """Make those of an event that is opened to learn whether it can be, and never counts."""
        return cls(event.kind, event.config, is_disabled=True, exclude_kernel=exclude_kernel)

    def to_flags(self) -> int:
        """Return the bit fields as the native module takes them."""
        flags = (
            (self.is_disabled, lib.OMN_EVENT_DISABLED),
            (self.inherits, lib.OMN_EVENT_INHERIT),
            (self.enable_on_exec, lib.OMN_EVENT_ENABLE_ON_EXEC),
            (self.exclude_kernel, lib.OMN_EVENT_EXCLUDE_KERNEL),
        )
        return sum(bit for is_set, bit in flags if is_set)


def open_event(attributes: EventAttributes, place: Place) -> int:
    """Open an event and return its descriptor. Raises OSError as perf_event_open(2) does."""
    text = ffi.NULL
    if attributes.path is not None:
        text = ffi.new("char[]", attributes.path.encode("utf-8", "surrogateescape"))
    times = lib.PERF_FORMAT_TOTAL_TIME_ENABLED | lib.PERF_FORMAT_TOTAL_TIME_RUNNING
    event = ffi.new(
        "struct omn_event *",
        {
            "kind": attributes.kind,
            "flags": attributes.to_flags(),
            "config": attributes.config,
            "config1": int(ffi.cast("uintptr_t", text)),
            "read_format": times if attributes.reads_times else 0,
        },
    )
    opened = lib.omn_event_open(event, place.pid, place.cpu, int(place.is_cgroup))
    if opened < 0:
        raise OSError(-opened, os.strerror(-opened))
    return opened
