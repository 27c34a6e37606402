"""The pprof format: profile.proto, gzipped, as `go tool pprof` and its relatives read it.

Every request with stacks gives two sample types: its weights, and how many events they were. A series' key becomes
labels of its samples: numbers where the key's values are. What the run lost is in the profile's comments.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from typing import Any, BinaryIO

from omn_core.api import (
    Document,
    Encoder,
    Frame,
    RequestError,
    StackSeries,
    TextStyle,
    escape_bytes,
    iter_reservations,
    iter_stack_series,
    render_asked,
)
from omn_export.wire import Message

UNITS = {"ns": "nanoseconds"}
"""omn's units by pprof's words for them, where these differ."""

_LEAST_INT64, _MOST_INT64 = -(1 << 63), (1 << 63) - 1


class PprofEncoder:
    """The stacks of a run as one profile."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run."""
        with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
            profile = _Profile(document)
            for part in profile.iter_fields():
                packed.write(part)

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Refuse: the format's row says that it carries runs alone."""
        raise RequestError("the format pprof holds runs alone")


class _Profile:
    """A profile on its way: its tables, which grow with the samples and are written after them."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.series = list(iter_stack_series(document))
        self.places = {place: index for index, place in enumerate(dict.fromkeys(one.place for one in self.series))}
        self.texts: dict[str, int] = {"": 0}
        self.functions: dict[Frame, int] = {}
        self.mappings: dict[str, int] = {}

    def iter_fields(self) -> Iterable[bytes]:
        """Iterate over the fields of the message Profile, as bytes."""
        for place in self.places:
            for kind, unit in self._name_types(place):
                yield _field(1, Message().add_number(1, self.text(kind)).add_number(2, self.text(unit)))
        for series in self.series:
            yield from self._iter_samples(series)
        yield from self._iter_mappings()
        for frame, function in self.functions.items():
            yield _field(4, self._make_location(frame, function))
            yield _field(5, self._make_function(frame, function))
        yield bytes(Message().add_number(10, self.document.window.length_ns))
        said = [render_asked(self.document.results[place]) for place in self.places]
        comments = [self.text(escape_bytes(text)) for text in (*said, *iter_reservations(self.document))]
        yield bytes(Message().add_packed(13, comments))
        for text in self.texts:
            yield bytes(Message().add_bytes(6, text.encode()))

    def text(self, text: str) -> int:
        """Return a text's index in the string table."""
        return self.texts.setdefault(text, len(self.texts))

    def _name_types(self, place: int) -> list[tuple[str, str]]:
        resolved = self.document.results[place].resolved
        names = [self.document.results[other].resolved.entry.id for other in self.places]
        name = resolved.entry.id if names.count(resolved.entry.id) == 1 else f"{resolved.entry.id} {place + 1}"
        # A profile's last type is the one that viewers show first.
        return [(f"{name} events", "count"), (name, UNITS.get(resolved.unit, escape_bytes(resolved.unit)))]

    def _iter_samples(self, series: StackSeries) -> Iterable[bytes]:
        called = series.result.resolved.labels
        labels = [self._make_label(name, value) for name, value in series.key.items()]
        labels += [self._make_label(called.get(name, f"{name} label"), text) for name, text in series.labels.items()]
        at = 2 * self.places[series.place]
        for stack in series.stacks:
            values = [0] * (2 * len(self.places))
            values[at : at + 2] = [_fit(stack.count), _fit(stack.weight)]
            locations = [self.functions.setdefault(frame, len(self.functions) + 1) for frame in reversed(stack.frames)]
            sample = Message().add_packed(1, locations).add_packed(2, values)
            for label in labels:
                sample.add_bytes(3, bytes(label))
            yield _field(2, sample)

    def _iter_mappings(self) -> Iterable[bytes]:
        """Iterate over the objects; the first is the main program's to a reader: where most of the stacks begin."""
        begun: Counter[str] = Counter()
        for stack in (stack for series in self.series for stack in series.stacks):
            if stack.frames and stack.frames[0].object is not None:
                begun[stack.frames[0].object] += _fit(stack.weight)
        main = [one for one, _ in begun.most_common(1)]
        held = (frame.object for frame in self.functions if frame.object is not None)
        for number, path in enumerate(dict.fromkeys([*main, *held]), 1):
            self.mappings[path] = number
            yield _field(3, Message().add_number(1, number).add_number(5, self.text(path)).add_number(7, 1))

    def _make_label(self, name: str, value: Any) -> Message:
        label = Message().add_number(1, self.text(escape_bytes(name)))
        if isinstance(value, int) and _LEAST_INT64 <= value <= _MOST_INT64:
            return label.add_number(3, value)
        return label.add_number(2, self.text("?" if value is None else escape_bytes(str(value))))

    def _make_location(self, frame: Frame, function: int) -> Message:
        location = Message().add_number(1, function)
        if frame.object is not None:
            location.add_number(2, self.mappings[frame.object])
        return location.add_bytes(4, bytes(Message().add_number(1, function)))

    def _make_function(self, frame: Frame, function: int) -> Message:
        name = self.text(frame.label)
        made = Message().add_number(1, function).add_number(2, name).add_number(3, name)
        return made if frame.object is None else made.add_number(4, self.text(frame.object))


def _fit(value: float) -> int:
    """Return the nearest number that the format can hold."""
    return min(max(round(value), _LEAST_INT64), _MOST_INT64)


def _field(number: int, message: Message) -> bytes:
    return bytes(Message().add_bytes(number, bytes(message)))


PPROF: Encoder = PprofEncoder()
