"""Make the index of type information in one pass over its arrays.

A type's length is known only at its start, which is known only from the types before it. So the length that a type
would have is computed for every word at once, and then followed from start to start.
"""

from __future__ import annotations

from array import array
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omn_kernel.btf.index import HASH_BASE, Index
from omn_kernel.btf.layout import FIXED_WORDS, WORDS_EACH, Content, Kind, Sections

Numbers: TypeAlias = npt.NDArray[np.uint32]
_KINDS = len(FIXED_WORDS)
_NAMED = frozenset(
    {
        Kind.INTEGER,
        Kind.STRUCT,
        Kind.UNION,
        Kind.ENUM,
        Kind.TYPEDEF,
        Kind.FUNCTION,
        Kind.VARIABLE,
        Kind.SECTION,
        Kind.ENUM64,
    }
)
_SEARCHED = np.array([kind in _NAMED for kind in range(_KINDS)])


def compute_index(content: Content, sections: Sections) -> Index:
    """Compute the index of types. Raises ValueError where one is cut short or of an unknown kind."""
    words: Any = np.frombuffer(content, np.uint32, (sections.types_end - sections.types_at) // 4, sections.types_at)
    starts = _compute_starts(words)
    names = words[starts]
    kinds = words[starts + 1] >> 24 & 0x1F
    named = np.flatnonzero(_SEARCHED[kinds] & (names != 0))
    strings = np.frombuffer(content, np.uint8, sections.strings_end - sections.strings_at, sections.strings_at)
    hashes, is_whole = _compute_hashes(strings, names[named])
    named, hashes = named[is_whole], hashes[is_whole]
    order = np.argsort(hashes, kind="stable")
    return Index(
        _as_words(np.concatenate((np.zeros(1, np.uint32), starts))),
        _as_words(hashes[order]),
        _as_words((named[order] + 1).astype(np.uint32)),
    )


def _as_words(numbers: Numbers) -> memoryview[int]:
    return memoryview(numbers.tobytes()).cast("I")


def _compute_starts(words: Numbers) -> Numbers:
    if len(words) == 0:
        return np.zeros(0, np.uint32)
    information = np.append(words[1:], np.uint32(0))
    kinds = information >> 24 & 0x1F
    fixed = np.array([3 + count for count in FIXED_WORDS] + [0] * (32 - _KINDS), np.uint32)
    each = np.array([*WORDS_EACH] + [0] * (32 - _KINDS), np.uint32)
    lengths = fixed[kinds] + each[kinds] * (information & 0xFFFF)
    # A kind that nobody knows has no length, and nothing that comes after it can be found.
    following = memoryview((np.arange(len(words), dtype=np.uint32) + lengths).tobytes()).cast("I")
    starts, position, end = array("I"), 0, len(words)
    while position < end:
        starts.append(position)
        after = following[position]
        if after == position:
            break
        position = after
    if position != end:
        raise ValueError(f"the type at word {starts[-1]} is cut short or of an unknown kind")
    return np.frombuffer(starts, np.uint32)


def _compute_hashes(strings: npt.NDArray[np.uint8], offsets: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Compute the hash of each name, as `compute_name_hash` does, and which offsets are where a string begins.

    The kernel's strings are each there once and no name is the end of another, so that all begin one.
    """
    zeros = np.flatnonzero(strings == 0)
    if len(zeros) == 0:
        return np.zeros(len(offsets), np.uint32), np.zeros(len(offsets), np.bool_)
    begins = np.concatenate((np.zeros(1, np.intp), zeros[:-1] + 1))
    spans = zeros + 1 - begins
    places = np.arange(zeros[-1] + 1) - np.repeat(begins, spans)
    powers = np.full(int(spans.max()), HASH_BASE, np.uint32)
    powers[0] = 1
    powers = np.multiply.accumulate(powers, dtype=np.uint32)
    sums = np.add.reduceat(strings[: zeros[-1] + 1] * powers[places], begins, dtype=np.uint32)
    which = np.searchsorted(begins, offsets)
    which[which == len(begins)] = 0
    return sums[which], begins[which] == offsets
