"""Events in columns: what collectors fill, and filters, emits, joins and encoders read.

No object stands for one event between a collector and the edge that prints it. Strings are interned into the run's
`Names`, so that columns of several batches concatenate without a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ABSENT = -1
"""The code of a text that an event does not carry."""

_CHUNK_ROWS = 16384


class Names:
    """The run's string table: text to a small integer and back.

    Bytes that are not UTF-8 are kept with surrogate escapes; encoders apply their own format's rule to them.
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []

    def __len__(self) -> int:
        return len(self._texts)

    def intern(self, text: str | bytes) -> int:
        """Return the code of a text, giving it the next one if it is new."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def text(self, code: int) -> str:
        """Return the text of a code that `intern` gave. Raises IndexError for any other."""
        if code < 0:
            raise IndexError(f"{code} is the code of no text")
        return self._texts[code]

    @property
    def texts(self) -> Sequence[str]:
        """Every text, at its code."""
        return self._texts


@attrs.frozen(eq=False, repr=False)
class Column:
    """One field of every event of a batch.

    `values` is int64, uint64, float64 or bool; with `names` it holds codes into that table, and `ABSENT` marks events
    without the field. For numbers `present` marks the events that carry it; None means all do.
    """

    values: Array
    present: npt.NDArray[np.bool_] | None = None
    names: Names | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_present(self) -> npt.NDArray[np.bool_]:
        """A mask of the events that carry the field."""
        if self.names is not None:
            return np.asarray(self.values >= 0)
        return np.ones(len(self.values), bool) if self.present is None else self.present

    def select(self, index: Array | slice) -> Column:
        """Return the column of the events that a mask, an index array or a slice picks."""
        present = None if self.present is None else self.present[index]
        return Column(self.values[index], present, self.names)

    def to_list(self) -> list[Any]:
        """Return Python values, None where absent."""
        if self.names is not None:
            texts = self.names.texts
            return [None if code < 0 else texts[code] for code in self.values.tolist()]
        if self.present is None:
            return list(self.values.tolist())
        return [
            value if there else None for value, there in zip(self.values.tolist(), self.present.tolist(), strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays, the shared names apart."""
        return self.values.nbytes + (0 if self.present is None else self.present.nbytes)

    @classmethod
    def of(cls, values: Sequence[Any], names: Names) -> Column:
        """Make a column from Python values of one type, None where an event lacks the field."""
        known = next((value for value in values if value is not None), None)
        if isinstance(known, str | bytes):
            codes = [ABSENT if value is None else names.intern(value) for value in values]
            return cls(np.array(codes, np.int64), None, names)
        present = None
        if any(value is None for value in values):
            present = np.array([value is not None for value in values], bool)
            values = [0 if value is None else value for value in values]
        return cls(_numbers(values), present)

    @classmethod
    def constant(cls, value: Any, length: int, names: Names) -> Column:
        """Make a column that holds one value for every event."""
        column = cls.of([value], names)
        return cls(np.repeat(column.values, length), None, column.names)


def _numbers(values: Sequence[Any]) -> Array:
    """Return int64 where it holds every value, uint64 past it, float64 for anything fractional."""
    if any(isinstance(value, float) for value in values):
        return np.array(values, np.float64)
    if any(value > 0x7FFF_FFFF_FFFF_FFFF for value in values):
        return np.array(values, np.uint64)
    return np.array(values, np.int64)


@attrs.frozen(eq=False, repr=False)
class Batch:
    """Events of one request, one row each, in columns of equal length.

    `ts` is CLOCK_MONOTONIC nanoseconds and `ts_err` their uncertainty in nanoseconds, None where nobody measured it.
    `keys` identify what an event is about (task, cpu, dev); `attributes` are what it says (its value, comm, kind).
    `weight` is how many occurrences each row stands for, None for one each; `stack` indexes the run's stacks.
    """

    ts: npt.NDArray[np.int64]
    ts_err: npt.NDArray[np.int64] | None = None
    keys: Mapping[str, Column] = attrs.field(factory=dict)
    attributes: Mapping[str, Column] = attrs.field(factory=dict)
    weight: Array | None = None
    stack: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        arrays = [array for array in (self.ts, self.ts_err, self.weight, self.stack) if array is not None]
        columns = [*self.keys.values(), *self.attributes.values()]
        return sum(array.nbytes for array in arrays) + sum(column.nbytes for column in columns)

    def column(self, name: str) -> Column | None:
        """Return a key or attribute column by name, None where the batch has none."""
        return self.attributes[name] if name in self.attributes else self.keys.get(name)

    def select(self, index: Array | slice) -> Batch:
        """Return the events that a mask, an index array or a slice picks; a slice copies nothing."""
        return Batch(
            self.ts[index],
            None if self.ts_err is None else self.ts_err[index],
            {name: column.select(index) for name, column in self.keys.items()},
            {name: column.select(index) for name, column in self.attributes.items()},
            None if self.weight is None else self.weight[index],
            None if self.stack is None else self.stack[index],
        )

    @classmethod
    def empty(cls) -> Batch:
        """Return a batch of no events."""
        return cls(np.empty(0, np.int64))

    @classmethod
    def of_reading(
        cls,
        span: tuple[int, int],
        names: Names,
        keys: Mapping[str, Sequence[Any] | Column],
        attributes: Mapping[str, Sequence[Any] | Column],
    ) -> Batch:
        """Make the batch of one reading: every row stamped at its end, uncertain by the whole span of the reading.

        `span` is the clock before and after, in nanoseconds. A sequence becomes a column; a Column made earlier
        (the task of each row, say) is taken as it is.
        """
        before, after = span
        columns = [
            {name: part if isinstance(part, Column) else Column.of(part, names) for name, part in group.items()}
            for group in (keys, attributes)
        ]
        length = len(next(iter([*columns[1].values(), *columns[0].values()])))
        return cls(
            np.full(length, after, np.int64), np.full(length, max(after - before, 1), np.int64), columns[0], columns[1]
        )

    @classmethod
    def concatenate(cls, batches: Sequence[Batch]) -> Batch:
        """Lay batches end to end. A column that some lack is absent in their rows; so is an unknown time error."""
        batches = [batch for batch in batches if len(batch)]
        if len(batches) <= 1:
            return batches[0] if batches else cls.empty()
        return cls(
            np.concatenate([batch.ts for batch in batches]),
            _all_or_none([batch.ts_err for batch in batches]),
            _concatenate_columns(batches, lambda batch: batch.keys),
            _concatenate_columns(batches, lambda batch: batch.attributes),
            _weights(batches),
            _stacks(batches),
        )

    def iter_chunks(self) -> Iterator[Batch]:
        """Iterate over the events in order, a bounded number of rows at a time."""
        for start in range(0, len(self), _CHUNK_ROWS):
            yield self.select(slice(start, start + _CHUNK_ROWS))


def _all_or_none(arrays: Sequence[Array | None]) -> Array | None:
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None


def _weights(batches: Sequence[Batch]) -> Array | None:
    if all(batch.weight is None for batch in batches):
        return None
    return np.concatenate(
        [np.ones(len(batch), np.int64) if batch.weight is None else batch.weight for batch in batches]
    )


def _stacks(batches: Sequence[Batch]) -> Array | None:
    if all(batch.stack is None for batch in batches):
        return None
    return np.concatenate(
        [np.full(len(batch), ABSENT, np.int64) if batch.stack is None else batch.stack for batch in batches]
    )


def _concatenate_columns(batches: Sequence[Batch], group: Callable[[Batch], Mapping[str, Column]]) -> dict[str, Column]:
    names = dict.fromkeys(name for batch in batches for name in group(batch))
    return {name: _concatenate_one([(group(batch).get(name), len(batch)) for batch in batches]) for name in names}


def _concatenate_one(parts: Sequence[tuple[Column | None, int]]) -> Column:
    columns = [column for column, _ in parts if column is not None]
    names = next((column.names for column in columns if column.names is not None), None)
    if names is not None:
        # A column of absent values alone does not know that it is one of texts, and its zeros are no codes.
        parts = [(None if column is None or column.names is None else column, length) for column, length in parts]
    filler = np.int64(ABSENT if names is not None else 0)
    values = [np.full(length, filler) if column is None else column.values for column, length in parts]
    if names is not None:
        return Column(np.concatenate(values), None, names)
    kind = _common_kind([column.values for column in columns])
    joined = np.concatenate([value.astype(kind, copy=False) for value in values])
    if all(column is not None and column.present is None for column, _ in parts):
        return Column(joined)
    present = [np.zeros(length, bool) if column is None else column.is_present for column, length in parts]
    return Column(joined, np.concatenate(present))


def _common_kind(arrays: Sequence[Array]) -> np.dtype[Any]:
    """Return the type that holds every value exactly where one does; float64 only beside a float or a negative."""
    kinds = {array.dtype for array in arrays}
    if len(kinds) == 1:
        return kinds.pop()
    if all(kind.kind in "iu" for kind in kinds) and all(array.min(initial=0) >= 0 for array in arrays):
        return np.dtype(np.uint64)
    return np.dtype(np.float64)
