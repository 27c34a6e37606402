"""What the library in front of an allocator writes: a record for each call, in as few words as it takes."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from omn_kernel.injected.memory import PART, Array, Bytes, Part, lay_out
from omn_kernel.native._injected import ffi, lib

FIELDS = {"ns": "u8", "began_ns": "u8", "bytes": "u8", "addr": "u8", "given": "u8", "op": "u4", "stack": "u4"}
"""The fields of a record: see native/heap.h."""
_RECORD = lay_out("struct omn_heap_record", FIELDS)
_WORD_BYTES = 8


@attrs.frozen(eq=False)
class AddedUp:
    """Rows of calls that were to make a block, each of all that are alike: the first, whose they are, how many.

    Alike in who called, what was called, how much was asked, the stack, and whether it was had. `frees` is how many
    calls of free came with them.
    """

    records: Array
    owners: Array
    weights: Array
    frees: int


class HeapRecords:
    """Counts such records, and reads them."""

    def count(self, content: Bytes) -> int:
        """Count them."""
        return lib.omn_heap_count(ffi.from_buffer("uint8_t[]", content), len(content))

    def measure(self, content: Bytes, count: int) -> int:
        """Return how many bytes the first so many are."""
        return lib.omn_heap_measure(ffi.from_buffer("uint8_t[]", content), len(content), count)

    def read(self, parts: Sequence[Part]) -> tuple[Array, Array]:
        """Return the records of some parts, and of each whose it is: `process`, `thread`, `name`."""
        if not parts:
            return np.zeros(0, _RECORD), np.zeros(0, PART)
        content = np.concatenate([part.content for part in parts])
        # Without its type the fields of a joined array stand closer than the compiler's.
        owners = np.concatenate([part.owners for part in parts], dtype=PART)
        most = len(content) // (_WORD_BYTES * lib.OMN_HEAP_FREE_WORDS)
        records, whose = np.zeros(most, _RECORD), np.zeros(most, np.uint32)
        count = lib.omn_heap_read(
            ffi.from_buffer("uint8_t[]", content),
            ffi.from_buffer("struct omn_injected_part[]", owners),
            len(owners),
            ffi.from_buffer("struct omn_heap_record[]", records),
            ffi.from_buffer("uint32_t[]", whose),
        )
        return records[:count], owners[whose[:count]]

    def add_up(self, part: Part) -> AddedUp:
        """Return a part as rows: reading it takes memory by how many these are, not by how many records it has."""
        owners = np.ascontiguousarray(part.owners, PART)
        most = len(part.content) // (_WORD_BYTES * lib.OMN_HEAP_FREE_WORDS)
        # What is not written to of these is not there: an empty table is pages that nobody touched.
        records, whose, weights = np.zeros(most, _RECORD), np.zeros(most, np.uint32), np.zeros(most, np.int64)
        places = np.zeros(1 << (2 * most).bit_length(), np.uint32)
        frees = ffi.new("uint64_t *")
        count = lib.omn_heap_add_up(
            ffi.from_buffer("uint8_t[]", part.content),
            ffi.from_buffer("struct omn_injected_part[]", owners),
            len(owners),
            ffi.from_buffer("struct omn_heap_record[]", records),
            ffi.from_buffer("uint32_t[]", whose),
            ffi.from_buffer("int64_t[]", weights),
            ffi.from_buffer("uint32_t[]", places),
            len(places) - 1,
            frees,
        )
        return AddedUp(records[:count].copy(), owners[whose[:count]], weights[:count].copy(), int(frees[0]))
