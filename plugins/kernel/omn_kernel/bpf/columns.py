"""Columns of an answer made of what programs wrote: many rows at a time, each different text or number named once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from omn_core.api import ABSENT, Column, Names

Array = npt.NDArray[Any]

_ODD = np.uint64(0x9E3779B97F4A7C15)


@attrs.frozen(eq=False, repr=False)
class Columns:
    """What some records or rows say, in columns: what each is about, and what it says of it.

    `weight` is how many occurrences each stands for, None for one each; `stack` numbers each one's stack in the run's
    table, None where there are none.
    """

    keys: Mapping[str, Column] = attrs.field(factory=dict)
    attributes: Mapping[str, Column] = attrs.field(factory=dict)
    weight: npt.NDArray[np.int64] | None = None
    stack: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Return how many events there are."""
        return len(next(iter({**self.keys, **self.attributes}.values()), ()))


def make_number_column(numbers: Array) -> Column:
    """Make a column of numbers that 63 bits hold."""
    return Column(numbers.astype(np.int64))


def make_text_column(texts: Array, names: Names) -> Column:
    """Make a column of texts that end at their first zero byte, as the kernel keeps names (comm); none is absent."""
    return make_spelled_column(texts, lambda text: text.partition(b"\0")[0], names)


def make_spelled_column(texts: Array, spell: Callable[[bytes], str | bytes | None], names: Names) -> Column:
    """Make a column of what some bytes of one length are called; those that have no name are absent."""
    index, codes = _find_different(texts)
    size = texts.dtype.itemsize
    whole = np.ascontiguousarray(texts[index]).tobytes()
    spelled = [spell(whole[at : at + size]) for at in range(0, len(whole), size)]
    interned = [ABSENT if one is None else names.intern(one) for one in spelled]
    return Column(np.array(interned, np.int64)[codes], None, names)


def make_named_column(numbers: Array, name: Callable[[int], str | None], names: Names) -> Column:
    """Make a column of the names of some numbers; one that has none is absent."""
    different, codes = np.unique(numbers, return_inverse=True)
    named = [name(number) for number in different.tolist()]
    interned = [ABSENT if one is None else names.intern(one) for one in named]
    return Column(np.array(interned, np.int64)[codes.reshape(-1)], None, names)


def make_address_column(addresses: Array, names: Names) -> Column:
    """Make a column of addresses as they are written, `0x7f31c0de`; 0 is absent."""
    return make_named_column(addresses, lambda address: hex(address) if address else None, names)


def keep_where(column: Column, is_known: npt.NDArray[np.bool_]) -> Column:
    """Return a column whose value is absent wherever it is not known."""
    if column.names is not None:
        return Column(np.where(is_known, column.values, ABSENT), None, column.names)
    return Column(column.values, column.is_present & is_known)


def _find_different(texts: Array) -> tuple[Array, Array]:
    """Return where each different text first stands, and which of these each text is.

    Texts of the same length are numbers of 64 bits: sorting one sum of them is many times faster than sorting texts.
    Should two texts ever have one sum, they are sorted as texts.
    """
    size = texts.dtype.itemsize
    padded = np.zeros((len(texts), -(-size // 8) * 8), np.uint8)
    padded[:, :size] = np.ascontiguousarray(texts).view(np.uint8).reshape(len(texts), size)
    words = padded.view(np.uint64)
    sums = np.zeros(len(texts), np.uint64)
    for place in range(words.shape[1]):
        sums = (sums ^ (sums >> np.uint64(29))) * _ODD + words[:, place]
    _, index, codes = np.unique(sums, return_index=True, return_inverse=True)
    codes = codes.reshape(-1)
    if np.array_equal(words[index][codes], words):
        return index, codes
    _, index, codes = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return index, codes.reshape(-1)
