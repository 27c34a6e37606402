"""What it costs to write a run of a million raw events, against `json.dump` of the same values."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from shapes import WINDOW, make_document, make_result

from omn_core.format.as_json import JSON
from omn_core.format.as_ndjson import NDJSON
from omn_core.format.as_text import TEXT
from omn_core.format.as_toml import TOML
from omn_core.format.as_yaml import YAML
from omn_core.model.batch import Batch, Column, Names
from omn_core.model.result import Document
from omn_core.model.style import TextStyle

EVENTS = 1_000_000
MOST_DUMPS = 2.0
MOST_MEMORY_MIB = 64


class Sink(io.RawIOBase):
    """A stream that counts what it is given and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, content: Any) -> int:
        """Count."""
        self.written += len(content)
        return len(content)


class TextSink(io.TextIOBase):
    """The same for text, as json.dump writes it."""

    def write(self, content: str) -> int:
        """Count nothing: the time to get here is what is measured."""
        return len(content)


def make_events(events: int = EVENTS) -> Batch:
    """Make events of two keys, three attributes and a weight."""
    random = np.random.default_rng(1)
    names = Names()
    for number in range(200):
        names.intern(f"command-{number}")
    return Batch(
        WINDOW.opened_ns + np.arange(events, dtype=np.int64),
        keys={"task": Column(random.integers(1, 5000, events)), "cpu": Column(random.integers(0, 2, events))},
        attributes={
            "value": Column(random.lognormal(11, 2, events).astype(np.int64)),
            "share": Column(random.random(events)),
            "comm": Column(random.integers(0, 200, events), None, names),
        },
        weight=random.integers(1, 9, events),
    )


@pytest.fixture(scope="module")
def document() -> Document:
    return make_document(make_result(make_events(), ["raw", "summary"], mode="trace"))


def measure(call: Callable[[], object]) -> float:
    """Return the shorter of two runs, in seconds."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def test_json_of_a_million_events_costs_at_most_two_dumps(document: Document) -> None:
    """The JSON format takes at most twice json.dump's time for the same values, in bounded memory."""
    written = io.BytesIO()
    JSON.write(document, written, TextStyle())
    plain = json.loads(written.getvalue())
    assert len(plain["results"][0]["raw"]) == EVENTS
    dump_seconds = measure(lambda: json.dump(plain, TextSink()))
    seconds = measure(lambda: JSON.write(document, Sink(), TextStyle()))  # type: ignore[arg-type]
    tracemalloc.start()
    JSON.write(document, Sink(), TextStyle())  # type: ignore[arg-type]
    peak_mib = tracemalloc.get_traced_memory()[1] / (1 << 20)
    tracemalloc.stop()
    print(
        f"\njson: {seconds:.2f} s, {seconds / dump_seconds:.2f} of json.dump's {dump_seconds:.2f} s, {peak_mib:.0f} MiB"
    )
    assert seconds <= MOST_DUMPS * dump_seconds
    assert peak_mib < MOST_MEMORY_MIB


@pytest.mark.parametrize("encoder", [JSON, NDJSON, YAML, TOML, TEXT], ids=["json", "ndjson", "yaml", "toml", "text"])
def test_memory_of_a_format_does_not_grow_with_its_events(encoder: Any) -> None:
    """Every format streams raw events: three times as many take no more memory to write."""
    peaks = []
    for events in (40_000, 120_000):
        document = make_document(make_result(make_events(events), ["raw"], mode="trace"))
        tracemalloc.start()
        encoder.write(document, Sink(), TextStyle())
        peaks.append(tracemalloc.get_traced_memory()[1] / (1 << 20))
        tracemalloc.stop()
    print(f"\n{type(encoder).__name__}: peak {peaks[0]:.1f} MiB, then {peaks[1]:.1f} MiB")
    assert peaks[1] < 1.2 * peaks[0]
