"""The functions of one file: every table it carries or that stands apart from it, in one index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from omn_kernel.elf.debug_data import read_debug_data
from omn_kernel.elf.image import Image, Segment, read_image
from omn_kernel.elf.notes import find_build_id
from omn_kernel.elf.placing import compute_addresses
from omn_kernel.elf.plt import read_entries
from omn_kernel.elf.source import ElfError, Source
from omn_kernel.elf.tables import read_dynamic_symbols, read_static_symbols
from omn_kernel.symbols.candidates import make_entries, select_functions
from omn_kernel.symbols.choice import NameSources
from omn_kernel.symbols.debug_files import open_debug_image
from omn_kernel.symbols.index import Addresses, Candidates, SymbolIndex

_LOCAL = NameSources()


@attrs.frozen(eq=False, repr=False)
class ObjectSymbols:
    """An object's functions, the segments that say where its bytes stand, and what names its build.

    `damage` says in a clause each what of it could not be read; the rest still names.
    """

    index: SymbolIndex
    segments: tuple[Segment, ...]
    build_id: str | None
    damage: tuple[str, ...]

    def compute_addresses(self, offsets: Addresses) -> Addresses:
        """Compute the addresses, as the object's symbols count them, of bytes of the file."""
        return compute_addresses(self.segments, offsets)


def read_object(
    source: Source, path: str = "", roots: Sequence[str] = (), sources: NameSources = _LOCAL
) -> ObjectSymbols:
    """Read an object's functions; where it carries no .symtab, from the debug file of its path under some roots too.

    Where no such file is there either, the servers of `sources` are asked for it; where `sources` has no place at all,
    the object has no functions. Raises ElfError where it is no ELF image.
    """
    image = read_image(source)
    damage: list[str] = []
    candidates = list(_iter_candidates(image, path, roots, sources, damage)) if sources.is_local else []
    return ObjectSymbols(SymbolIndex(candidates), image.segments, find_build_id(image), tuple(damage))


def _iter_candidates(
    image: Image, path: str, roots: Sequence[str], sources: NameSources, damage: list[str]
) -> Iterator[Candidates]:
    """Yield the tables in the order of their worth: the file's own whole table, a debug file's, what is left."""

    def attempt(read: Callable[[], Candidates | None]) -> Iterator[Candidates]:
        try:
            found = read()
        except ElfError as error:
            damage.append(str(error))
            return
        if found is not None and len(found.start):
            yield found

    own = list(attempt(lambda: _select_static(image, "symtab")))
    yield from own
    if not own:
        apart = list(attempt(lambda: _select_debug(image, path, roots)))
        yield from apart or attempt(lambda: _select_fetched(image, sources))
    yield from attempt(lambda: _select_dynamic(image))
    if not own:
        yield from attempt(lambda: _select_carried(image))
    yield from attempt(lambda: make_entries(read_entries(image), "dynsym"))


def _select_static(image: Image, source: str) -> Candidates | None:
    table = read_static_symbols(image)
    return None if table is None else select_functions(image, table, source)


def _select_debug(image: Image, path: str, roots: Sequence[str]) -> Candidates | None:
    with open_debug_image(image, path, roots) as found:
        return None if found is None else _select_static(found, "debug file")


def _select_fetched(image: Image, sources: NameSources) -> Candidates | None:
    build_id = find_build_id(image)
    if sources.servers is None or build_id is None:
        return None
    found = sources.servers.find(build_id)
    if found is None:
        return None
    with found:
        return _select_static(read_image(found), "debuginfod")


def _select_carried(image: Image) -> Candidates | None:
    carried = read_debug_data(image)
    return None if carried is None else _select_static(carried, "gnu_debugdata")


def _select_dynamic(image: Image) -> Candidates | None:
    table = read_dynamic_symbols(image)
    return None if table is None else select_functions(image, table, "dynsym")
