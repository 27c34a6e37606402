"""Many runs in one process, and what each leaves behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from omn_core.model.catalog import Catalog
from omn_core.model.request import Request, Session, parse_emit
from omn_core.model.target import Target
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable
from omn_core.resolve.session import resolve_session, validate_session
from omn_core.run.runner import run

Asked: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A source, a mode, and emits."""

FAULTS: tuple[Asked, ...] = (("mem.faults", "trace", ("stack", "raw")), ("mem.faults", "sample", ("stack", "raw")))
"""Records of page faults, in both modes."""


def iter_left_behind(
    registry: Registry, catalog: Catalog, times: int, questions: tuple[Asked, ...] = FAULTS
) -> Iterator[tuple[int, int, int, int]]:
    """Run a program again and again, under each of the questions in turn.

    After each run, once what it left in cycles was collected: events, open descriptors, mappings of rings, and resident
    pages of this process.
    """
    for number in range(times):
        source, mode, emits = questions[number % len(questions)]
        request = Request(source, mode, tuple(map(parse_emit, emits)), (), Target("launch", ("true",)))
        valid = validate_session(Session((request,)), catalog, registry)
        document = run(resolve_session(valid, registry, ProbeTable(registry), {}), registry)
        events = document.results[0].events_seen
        del document, valid
        gc.collect()
        maps = Path("/proc/self/maps").read_text()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        yield events, len(os.listdir("/proc/self/fd")), maps.count("perf_event"), pages
