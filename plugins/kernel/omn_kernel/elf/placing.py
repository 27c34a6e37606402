"""Where the bytes of a file stand, as the object's own addresses count them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from omn_kernel.elf.image import PF_X, PT_LOAD, Segment

_PAGE = 4096


def compute_addresses(segments: Sequence[Segment], offsets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Compute the address of each byte of the file.

    An offset is the executable segment's that holds it, then any segment's, then that of a segment whose last page
    it fills; the loader maps whole pages. One that is in none stands for itself.
    """
    addresses = offsets.copy()
    loaded = [one for one in segments if one.kind == PT_LOAD]
    code = [one for one in loaded if one.flags & PF_X]
    unknown = np.ones(len(offsets), bool)
    for extent, chosen in ((1, code), (1, loaded), (_PAGE, code), (_PAGE, loaded)):
        for segment in chosen:
            low = segment.offset // extent * extent
            high = -(-(segment.offset + segment.file_size) // extent) * extent
            held = unknown & (offsets >= np.uint64(low)) & (offsets < np.uint64(min(high, (1 << 64) - 1)))
            shift = np.uint64((segment.address - segment.offset) % (1 << 64))
            addresses[held] = offsets[held] + shift
            unknown &= ~held
            if not unknown.any():
                return addresses
    return addresses


def compute_shift(segments: Sequence[Segment], offset: int, size: int) -> int:
    """Compute how much more the addresses of a mapped stretch of code are than its places in the file.

    A page may hold the end of one segment and the beginning of the next, each mapped with the whole page: linkers that
    do not pad files between them make it so. It is the executable segment that fills most of the stretch that counts,
    any other where there is none, and nothing where none is in it.
    """

    def count_shared(segment: Segment) -> int:
        return min(segment.offset + segment.file_size, offset + size) - max(segment.offset, offset)

    loaded = [one for one in segments if one.kind == PT_LOAD and count_shared(one) > 0]
    code = [one for one in loaded if one.flags & PF_X]
    found = max(code or loaded, key=count_shared, default=None)
    return 0 if found is None else found.address - found.offset
