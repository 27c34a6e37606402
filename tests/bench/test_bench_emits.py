"""What the aggregating emits cost over a million events: time in sorts of their values, memory beside the events."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from shapes import REGISTRY, make_series

from omn_core.emit.base import Series
from omn_core.model.batch import Array, Batch, Column, Names
from omn_core.model.request import parse_emit

EVENTS = 1_000_000
ASKED = ("hist", "topk:10@comm", "summary", "rate")
MOST_SORTS = 15
MOST_MEMORY_MIB = 200


def make_events(weight: Array | None) -> Batch:
    """Make a million latencies of two hundred commands."""
    random = np.random.default_rng(1)
    names = Names()
    for number in range(200):
        names.intern(f"command-{number}")
    return Batch(
        np.arange(EVENTS, dtype=np.int64) * 1000,
        attributes={
            "value": Column(random.lognormal(11, 2, EVENTS).astype(np.int64)),
            "comm": Column(random.integers(0, 200, EVENTS), None, names),
        },
        weight=weight,
    )


def answer_all(series: Series) -> None:
    """Ask every emit once."""
    for asked in ASKED:
        spec = parse_emit(asked)
        REGISTRY.load(REGISTRY.emits[spec.name].reference).compute(series, spec)


def measure_best(call: Callable[[], object], rounds: int = 7) -> float:
    """Return the shortest of several runs, in seconds: what is left when nothing else ran."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


@pytest.mark.spec("EMT-5")
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_emits_over_a_million_events_cost_few_sorts(weighted: bool) -> None:
    """hist, topk, summary and rate together take at most 15 sorts of the value column and under 200 MiB."""
    weight = np.random.default_rng(2).integers(1, 50, EVENTS) if weighted else None
    batch = make_events(weight)
    values = batch.attributes["value"].values
    answer_all(make_series(batch, unit="ns"))
    sort_seconds = measure_best(lambda: np.sort(values))
    seconds = measure_best(lambda: answer_all(make_series(batch, unit="ns")))
    tracemalloc.start()
    answer_all(make_series(batch, unit="ns"))
    peak_mib = tracemalloc.get_traced_memory()[1] / (1 << 20)
    tracemalloc.stop()
    ratio = seconds / sort_seconds
    print(f"\nemits: {seconds * 1e3:.1f} ms, {ratio:.2f} sorts of {sort_seconds * 1e3:.1f} ms, peak {peak_mib:.0f} MiB")
    assert ratio <= MOST_SORTS
    assert peak_mib < MOST_MEMORY_MIB
