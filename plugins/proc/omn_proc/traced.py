"""Collectors of what programs in the kernel see of processes' lives."""

from __future__ import annotations

from omn_kernel.bpf.traced import TracedEvents

from omn_proc.programs.ends import ProcessEnds
from omn_proc.programs.makings import TaskMakings
from omn_proc.programs.signals import SentSignals


class Forks(TracedEvents):
    """Each task that is made, or their number."""

    tracer = TaskMakings


class Exits(TracedEvents):
    """Each process that ends, or their number."""

    tracer = ProcessEnds


class Signals(TracedEvents):
    """Each signal that is sent, or their number."""

    tracer = SentSignals
