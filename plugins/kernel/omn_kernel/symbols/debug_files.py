"""Separate debug files: by build id, or by the name and checksum that a stripped file carries.

Looked for where gdb does: /usr/lib/debug/.build-id/xx/rest.debug; then the file's folder, its .debug folder, and
/usr/lib/debug under the file's folder.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator, Sequence

from omn_kernel.elf.image import Image, read_image
from omn_kernel.elf.notes import DebugLink, find_build_id, find_debug_link
from omn_kernel.elf.source import ElfError, File, Source

FOLDER = "/usr/lib/debug"
_BY_BUILD_ID = f"{FOLDER}/.build-id"
_CHUNK = 1 << 20
_MOST_CHECKED_BYTES = 1 << 30


@contextlib.contextmanager
def open_debug_image(image: Image, path: str, roots: Sequence[str]) -> Iterator[Image | None]:
    """Open the debug file of an image whose path is under some roots: None where none that is there is this build's."""
    build_id, link = find_build_id(image), find_debug_link(image)
    with contextlib.ExitStack() as opened:
        for root in roots:
            for place in _iter_places(build_id, link, path):
                found = _open_image(root + place, opened)
                if found is not None and _is_of(found, place, build_id, link):
                    yield found
                    return
        yield None


def _iter_places(build_id: str | None, link: DebugLink | None, path: str) -> Iterator[str]:
    if build_id is not None and len(build_id) > 2:
        yield f"{_BY_BUILD_ID}/{build_id[:2]}/{build_id[2:]}.debug"
    if link is not None:
        folder = os.path.dirname(path)
        yield from (f"{place}/{link.name}" for place in (folder, f"{folder}/.debug", f"{FOLDER}{folder}"))


def _open_image(path: str, opened: contextlib.ExitStack) -> Image | None:
    try:
        return read_image(opened.enter_context(File(path)))
    except (OSError, ElfError):
        return None


def _is_of(found: Image, place: str, build_id: str | None, link: DebugLink | None) -> bool:
    if place.startswith(_BY_BUILD_ID):
        return find_build_id(found) == build_id
    try:
        return link is not None and compute_checksum(found.source) == link.checksum
    except ElfError:
        return False


def compute_checksum(source: Source) -> int | None:
    """Compute the CRC-32 of a whole file, None for one too large to be read for it. Raises ElfError as reading does."""
    if source.size > _MOST_CHECKED_BYTES:
        return None
    checksum = 0
    for offset in range(0, source.size, _CHUNK):
        checksum = zlib.crc32(source.read(offset, min(_CHUNK, source.size - offset)), checksum)
    return checksum
