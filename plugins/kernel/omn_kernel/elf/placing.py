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
    return addresses
