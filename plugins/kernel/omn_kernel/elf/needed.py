"""What an object asks its loader for: the libraries it needs, and the folders of its own that they may stand in."""

from __future__ import annotations

import os

import attrs
import numpy as np

from omn_kernel.elf.image import SHT_DYNAMIC, Image, read_name
from omn_kernel.elf.source import ElfError

_NEEDED, _RPATH, _RUNPATH = 1, 15, 29
"""DT_NEEDED and the others of <elf.h>."""
_MOST_RECORDS = 4096
"""How many of its records are read: a linker writes some dozens, and one for each library."""


@attrs.frozen
class Needed:
    """The names of libraries, and folders that are looked in for them: `$ORIGIN` is the object's own."""

    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def read_needed(image: Image) -> Needed:
    """Read what an image needs, nothing of one that nobody links. Raises ElfError where its tables are not there."""
    section = next((one for one in image.sections if one.kind == SHT_DYNAMIC and one.size), None)
    if section is None:
        return Needed()
    if section.link >= len(image.sections):
        raise ElfError(f"its libraries' names are in section {section.link}, which is not there")
    width = 8 if image.is_64 else 4
    layout = np.dtype([("tag", f"{image.order}u{width}"), ("value", f"{image.order}u{width}")])
    count = min(section.size // layout.itemsize, _MOST_RECORDS)
    records = np.frombuffer(image.read_section(section), layout, count)
    strings = image.read_section(image.sections[section.link])

    def list_texts(*tags: int) -> list[str]:
        chosen = records["value"][np.isin(records["tag"], tags)]
        return [os.fsdecode(read_name(strings, offset)) for offset in chosen.tolist()]

    folders = [folder for path in list_texts(_RPATH, _RUNPATH) for folder in path.split(":") if folder]
    return Needed(tuple(list_texts(_NEEDED)), tuple(folders))
