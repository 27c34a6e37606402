"""Where each type starts, and which has which name: arrays of 32-bit words, searched without reading the types."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import TypeAlias

import attrs

Words: TypeAlias = "memoryview[int]"
HASH_BASE = 0x01000193
"""The base of the names' polynomial hash; odd, so that no byte of a name is multiplied away."""


def compute_name_hash(name: bytes) -> int:
    """Compute the 32-bit hash that names are sorted by: the sum of each byte times the base to the power of its place.

    Each is compared with the name itself too: the hash only says where to look.
    """
    value = 0
    for byte in reversed(name):
        value = (value * HASH_BASE + byte) & 0xFFFFFFFF
    return value


@attrs.frozen(repr=False)
class Index:
    """The word at which type `n` starts (type 0 is void), and the named types' numbers by their names' hash."""

    starts: Words
    hashes: Words
    numbers: Words

    def iter_candidates(self, name: bytes) -> Iterator[int]:
        """Yield the numbers of the types whose names have the name's hash."""
        wanted = compute_name_hash(name)
        position = bisect.bisect_left(self.hashes, wanted)
        while position < len(self.hashes) and self.hashes[position] == wanted:
            yield self.numbers[position]
            position += 1
