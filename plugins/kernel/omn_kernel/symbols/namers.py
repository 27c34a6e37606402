"""The namer of each object, made when its first address is asked for: files, the vdso, the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from omn_kernel.elf.image import read_image
from omn_kernel.elf.notes import find_build_id
from omn_kernel.elf.source import ElfError, File
from omn_kernel.polled import place
from omn_kernel.symbols.choice import NameSources
from omn_kernel.symbols.files import NotFound, read_written_ns, was_written_since
from omn_kernel.symbols.frames import ANONYMOUS, KERNEL, Symbol
from omn_kernel.symbols.held import MappedFiles, make_key
from omn_kernel.symbols.index import Addresses, Numbers
from omn_kernel.symbols.kernel import KernelFunctions, read_kernel_symbols
from omn_kernel.symbols.mappings import Mapping
from omn_kernel.symbols.naming import Namer
from omn_kernel.symbols.objects import ObjectSymbols, read_object
from omn_kernel.symbols.vdso import NAME as VDSO
from omn_kernel.symbols.vdso import copy_vdso


@attrs.frozen(eq=False, repr=False)
class MappedNamer:
    """The namer of a mapped object, and the object, which says where its bytes stand; None where it is not known.

    `written_ns` is when the file it was read from had last been written, CLOCK_MONOTONIC, None where that is no matter.
    """

    namer: Namer
    known: ObjectSymbols | None = None
    written_ns: int | None = None

    def is_of(self, mapping: Mapping) -> bool:
        """Whether it is what was mapped, and not what was written in its place since."""
        return self.written_ns is None or not was_written_since(self.written_ns, mapping)

    def compute_offsets(self, mapping: Mapping, ips: Addresses) -> Addresses:
        """Compute where in the object instructions in a mapping are; what is in none stays as it is."""
        if not mapping.is_file and self.known is None:
            return ips
        # The offset may be any number: what is past the end of everything comes around, and is in no segment.
        return ips - np.uint64(mapping.start) + np.uint64(mapping.offset)

    def name(self, offsets: Addresses, symbols: list[Symbol]) -> tuple[Numbers, Addresses]:
        """Return the symbol of each place in the object, as a namer does of addresses."""
        return self.namer.name(offsets if self.known is None else self.known.compute_addresses(offsets), symbols)


class Namers:
    """One namer for each object of the run, whichever processes have it mapped."""

    def __init__(self, sysroot: str, sources: NameSources, files: MappedFiles) -> None:
        self._notes: dict[str, None] = {}
        self._damage: list[tuple[str, Sequence[str]]] = []
        self._sysroot = sysroot
        self._sources = sources
        self._files = files
        self._made: dict[tuple[object, ...], MappedNamer] = {}
        self._by_build: dict[tuple[str, str], MappedNamer] = {}
        self._kernel: Namer | None = None
        self._functions: KernelFunctions | None = None

    @property
    def notes(self) -> list[str]:
        """What has no names, and what of a file could not be read, in a sentence each."""
        missing = (f"some names of {path} are missing: {clause}" for path, damage in self._damage for clause in damage)
        return [*self._notes, *missing]

    @property
    def waiting(self) -> range:
        """The addresses of the kernel's functions that threads give their cpu up in; none where they are not known."""
        self.get_kernel()
        return range(0) if self._functions is None else self._functions.waiting

    def get_kernel(self) -> Namer:
        """Return the kernel's, which names nothing where its addresses are hidden from this user."""
        if self._kernel is None:
            self._functions = self._find_kernel_symbols() if self._sources.is_local else None
            self._kernel = Namer(self._functions, Symbol(None, KERNEL, 0, is_kernel=True), is_file=False)
        return self._kernel

    def _find_kernel_symbols(self) -> KernelFunctions | None:
        try:
            functions = read_kernel_symbols(self._sysroot)
            reason = "its addresses are hidden from this user (kernel.kptr_restrict)"
        except OSError as error:
            functions, reason = None, f"/proc/kallsyms cannot be read ({error.strerror})"
        if functions is None:
            self._notes[f"no names for the kernel: {reason}"] = None
        return functions

    def get(self, mapping: Mapping, pid: int, is_living: bool) -> MappedNamer:
        """Return the namer of what a process has mapped. `is_living` says that it still has that memory."""
        key = _make_key(mapping)
        found = self._made.get(key)
        if found is None or not found.is_of(mapping):
            found = self._made.get((key, pid))
        if found is None:
            try:
                found = self._make(mapping, pid, is_living)
            except (NotFound, ElfError, OSError) as error:
                # Another process may still lead to the same file.
                key, found = (key, pid), MappedNamer(_make_nameless(mapping))
                self._notes[f"no names for {mapping.file_path}: {_explain(error)}"] = None
            self._made[key] = found
        return found

    def _make(self, mapping: Mapping, pid: int, is_living: bool) -> MappedNamer:
        if mapping.path == VDSO and self._sources.is_local:
            known = read_object(read_image(copy_vdso(self._sysroot, mapping, pid)), stays=True)
            return MappedNamer(Namer(known.index, Symbol(None, VDSO, 0), is_file=False, named_by="vdso"), known)
        if not mapping.is_file:
            return MappedNamer(_make_nameless(mapping))
        with self._files.lend(mapping, pid if is_living else None) as opened:
            return self._read(opened.file, mapping, opened.root)

    def _read(self, file: File, mapping: Mapping, root: str) -> MappedNamer:
        """Read a file's functions, once for each build of a path."""
        image = read_image(file)
        path, build_id = mapping.file_path, find_build_id(image)
        found = None if build_id is None else self._by_build.get((path, build_id))
        if found is not None:
            return found
        roots = tuple(dict.fromkeys((root, place(self._sysroot, "").rstrip("/"))))
        written_ns = None if build_id is not None else read_written_ns(file)
        known = read_object(image, path, roots, self._sources, stays=self._files.is_held(mapping))
        self._damage.append((path, known.damage))
        namer = Namer(known.index, Symbol(None, path, 0, build_id=known.build_id), is_file=True)
        found = MappedNamer(namer, known, written_ns)
        if build_id is not None:
            self._by_build[path, build_id] = found
        return found


def _make_key(mapping: Mapping) -> tuple[object, ...]:
    """Make what tells an object from every other."""
    if mapping.path == VDSO:
        return VDSO, mapping.end > 1 << 32
    return make_key(mapping)


def _make_nameless(mapping: Mapping) -> Namer:
    path = ANONYMOUS if mapping.is_anonymous else mapping.file_path
    return Namer(None, Symbol(None, path, 0, build_id=mapping.build_id), is_file=mapping.is_file)


def _explain(error: Exception) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
