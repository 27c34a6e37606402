"""The code of a process with its unwind information: one table an object, whichever processes have it mapped."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from omn_kernel.elf.image import Segment, read_image
from omn_kernel.elf.placing import compute_shift
from omn_kernel.elf.source import ElfError
from omn_kernel.polled import place
from omn_kernel.symbols.files import NotFound, read_written_ns, was_written_since
from omn_kernel.symbols.held import MappedFiles
from omn_kernel.symbols.mappings import Mapping
from omn_kernel.symbols.vdso import NAME as VDSO
from omn_kernel.symbols.vdso import copy_vdso
from omn_kernel.unwind.tables import FrameTable, read_frame_table
from omn_kernel.unwind.walking import CodeRange


@attrs.frozen(eq=False, repr=False)
class _Object:
    segments: tuple[Segment, ...]
    table: FrameTable | None
    entry: int
    written_ns: int | None


class FrameTables:
    """Reads objects' tables, each once. `notes` says in a sentence each what has none that can be read."""

    def __init__(self, sysroot: str = "/", files: MappedFiles | None = None) -> None:
        self.notes: dict[str, None] = {}
        self._sysroot = sysroot
        self._files = files or MappedFiles(sysroot)
        self._known: dict[tuple[object, ...], _Object] = {}

    def make_ranges(self, mappings: Sequence[Mapping], pid: int, is_living: bool) -> list[CodeRange]:
        """Make the ranges of what a process has mapped; `is_living` says that it still has it.

        Memory that no file stands behind is there too, without a table: a walk ends in it and does not step over it.
        """
        return [self._make_range(mapping, pid, is_living) for mapping in mappings]

    def _make_range(self, mapping: Mapping, pid: int, is_living: bool) -> CodeRange:
        found = self._get(mapping, pid, is_living) if mapping.is_file or mapping.path == VDSO else None
        if found is None:
            return CodeRange(mapping.start, mapping.end, 0, None)
        shift = compute_shift(found.segments, mapping.offset, mapping.end - mapping.start)
        bias = mapping.start - mapping.offset - shift
        return CodeRange(mapping.start, mapping.end, bias, found.table, bias + found.entry if found.entry else 0)

    def _get(self, mapping: Mapping, pid: int, is_living: bool) -> _Object | None:
        key = (mapping.file_path, mapping.device, mapping.inode, mapping.build_id, mapping.end > 1 << 32)
        if key not in self._known:
            try:
                self._known[key] = self._read(mapping, pid if is_living else None)
            except (NotFound, ElfError, OSError) as error:
                self.notes[f"no unwind information of {mapping.file_path}: {error}"] = None
        found = self._known.get(key)
        is_later = found is not None and found.written_ns is not None and was_written_since(found.written_ns, mapping)
        return None if is_later else found  # what was written in its place since tells nothing of what ran

    def _read(self, mapping: Mapping, pid: int | None) -> _Object:
        if mapping.path == VDSO:
            image = read_image(copy_vdso(self._sysroot, mapping, pid or 0))
            return _Object(image.segments, read_frame_table(image), image.entry, None)
        with self._files.lend(mapping, pid) as opened:
            image, written_ns = read_image(opened.file), None if mapping.build_id else read_written_ns(opened.file)
            roots = tuple(dict.fromkeys((opened.root, place(self._sysroot, "").rstrip("/"))))
            return _Object(image.segments, read_frame_table(image, mapping.file_path, roots), image.entry, written_ns)
