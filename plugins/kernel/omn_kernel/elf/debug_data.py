"""The small symbol table that distributions leave in stripped files: .gnu_debugdata, an ELF image under xz."""

from __future__ import annotations

import lzma

from omn_kernel.elf.image import Image, read_image
from omn_kernel.elf.source import ElfError, Memory

_MOST_BYTES = 256 << 20
_MOST_DECODER_BYTES = 128 << 20


def read_debug_data(image: Image) -> Image | None:
    """Read the image that a file carries compressed, None where it carries none.

    Raises ElfError where it is damaged, or larger than any such table.
    """
    section = image.find_section(b".gnu_debugdata")
    if section is None:
        return None
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_DECODER_BYTES)
    try:
        content = decoder.decompress(image.read_section(section), _MOST_BYTES)
    except (lzma.LZMAError, EOFError, MemoryError) as error:
        raise ElfError(f"its .gnu_debugdata cannot be decompressed: {error}") from None
    if not decoder.eof:
        raise ElfError(f"its .gnu_debugdata is cut short, or is past {_MOST_BYTES} bytes decompressed")
    return read_image(Memory(content))
