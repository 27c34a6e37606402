"""Make the index of type information in one pass over its types, natively, and one over their names."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from omn_kernel.btf.index import HASH_BASE, Index
from omn_kernel.btf.layout import FIXED_WORDS, WORDS_EACH, Content, Kind, Sections
from omn_kernel.native._bpf import ffi, lib

Numbers: TypeAlias = npt.NDArray[np.uint32]
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
_SEARCHED = np.array([kind in _NAMED for kind in range(len(FIXED_WORDS))])


def compute_index(content: Content, sections: Sections) -> Index:
    """Compute the index of types. Raises ValueError where one is cut short or of an unknown kind."""
    words: Any = np.frombuffer(content, np.uint32, (sections.types_end - sections.types_at) // 4, sections.types_at)
    starts = _list_starts(words)
    names = words[starts]
    kinds = words[starts + 1] >> 24 & 0x1F
    named = np.flatnonzero(_SEARCHED[kinds] & (names != 0))
    strings = np.frombuffer(content, np.uint8, sections.strings_end - sections.strings_at, sections.strings_at)
    hashes, is_whole = _compute_hashes(strings, names[named])
    # Types of one name stand in their order: the first of them is what is found.
    ordered = np.sort(hashes[is_whole].astype(np.uint64) << np.uint64(32) | (named[is_whole] + 1).astype(np.uint64))
    return Index(
        _as_words(np.concatenate((np.zeros(1, np.uint32), starts))),
        _as_words((ordered >> np.uint64(32)).astype(np.uint32)),
        _as_words(ordered.astype(np.uint32)),
    )


def _as_words(numbers: Numbers) -> memoryview[int]:
    return memoryview(numbers.tobytes()).cast("I")


def _list_starts(words: Numbers) -> Numbers:
    """List the words at which types start, each known only from the length of the one before."""
    if len(words) == 0:
        return np.zeros(0, np.uint32)
    unknown = [0] * (lib.OMN_BTF_KINDS - len(FIXED_WORDS))
    fixed = [3 + count for count in FIXED_WORDS] + unknown
    starts, end = np.zeros(len(words) // 3 + 1, np.uint32), ffi.new("size_t *")
    given, taken = ffi.from_buffer("uint32_t[]", words), ffi.from_buffer("uint32_t[]", starts)
    count = lib.omn_btf_starts(given, len(words), fixed, [*WORDS_EACH, *unknown], taken, end)
    if end[0] != len(words):
        last = int(starts[max(count - 1, 0)])
        raise ValueError(f"the type at word {last} is cut short or of an unknown kind")
    return starts[:count]


def _compute_hashes(strings: npt.NDArray[np.uint8], offsets: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Compute the hash of each name, as `compute_name_hash` does, and which offsets are where a string begins.

    The kernel's strings are each there once and no name is the end of another, so that all begin one.
    """
    hashes, is_whole = np.zeros(len(offsets), np.uint32), np.zeros(len(offsets), np.uint8)
    lib.omn_btf_hashes(
        ffi.from_buffer("uint8_t[]", strings),
        len(strings),
        ffi.from_buffer("uint32_t[]", np.ascontiguousarray(offsets)),
        len(offsets),
        HASH_BASE,
        ffi.from_buffer("uint32_t[]", hashes),
        ffi.from_buffer("uint8_t[]", is_whole),
    )
    return hashes, is_whole.astype(bool)
