"""Collectors of what programs in the kernel see of memory, event by event or added up."""

from __future__ import annotations

from omn_kernel.bpf.traced import TracedEvents

from omn_mem.programs.page_allocations import PageAllocations
from omn_mem.programs.victims import Victims


class Kills(TracedEvents):
    """Each process that is killed for want of memory, or their number."""

    tracer = Victims


class Allocations(TracedEvents):
    """Each allocation of pages, or the sums of them."""

    tracer = PageAllocations
