"""The functions of one file: every table it carries or that stands apart from it, in one index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from omn_kernel.elf.debug_data import read_debug_data
from omn_kernel.elf.image import Image, Segment, read_image
from omn_kernel.elf.notes import find_build_id
from omn_kernel.elf.placing import compute_addresses
from omn_kernel.elf.plt import hold_entries, read_entries
from omn_kernel.elf.source import ElfError
from omn_kernel.elf.tables import read_dynamic_symbols, read_static_symbols
from omn_kernel.symbols.candidates import FunctionTable, make_entries, select_functions
from omn_kernel.symbols.choice import NameSources
from omn_kernel.symbols.debug_files import open_debug_image
from omn_kernel.symbols.functions import LaterTable, ObjectFunctions, Table
from omn_kernel.symbols.index import Addresses

_LOCAL = NameSources()


@attrs.frozen(eq=False, repr=False)
class ObjectSymbols:
    """An object's functions, the segments that say where its bytes stand, and what names its build.

    `damage` says in a clause each what of it could not be read, so far as it was asked for; the rest still names.
    """

    index: ObjectFunctions
    segments: tuple[Segment, ...]
    build_id: str | None
    damage: Sequence[str]

    def compute_addresses(self, offsets: Addresses) -> Addresses:
        """Compute the addresses, as the object's symbols count them, of bytes of the file."""
        return compute_addresses(self.segments, offsets)


def read_object(
    image: Image, path: str = "", roots: Sequence[str] = (), sources: NameSources = _LOCAL, *, stays: bool = False
) -> ObjectSymbols:
    """Read an object's functions; where it carries no .symtab, from the debug file of its path under some roots too.

    Where no such file is there either, the servers of `sources` are asked for it; where `sources` has no place at all,
    the object has no functions. Of an object that `stays` to be read, what few addresses need is left until one does.
    """
    damage: list[str] = []
    tables, later = _list_tables(image, path, roots, sources, damage) if sources.is_local else ([], [])
    if not stays:
        tables, later = [*tables, *(table for one in later for table in one.read())], []
    return ObjectSymbols(ObjectFunctions(tables, later), image.segments, find_build_id(image), damage)


def _list_tables(
    image: Image, path: str, roots: Sequence[str], sources: NameSources, damage: list[str]
) -> tuple[list[Table], list[LaterTable]]:
    """List the tables in the order of their worth: the file's own whole table, a debug file's, what is left."""

    def attempt(read: Callable[[], Table | None]) -> list[Table]:
        try:
            found = read()
        except (ElfError, OSError) as error:
            damage.append(str(error))
            return []
        return [] if found is None or not len(found.start) else [found]

    entries = LaterTable(
        lambda addresses: hold_entries(image, addresses),
        lambda: attempt(lambda: make_entries(read_entries(image), "dynsym")),
    )
    own = attempt(lambda: _select_static(image, "symtab"))
    if own:
        # A whole table has nearly everything that the other has.
        dynamic = LaterTable(lambda _: True, lambda: attempt(lambda: _select_dynamic(image)))
        return own, [dynamic, entries]
    tables = attempt(lambda: _select_debug(image, path, roots)) or attempt(lambda: _select_fetched(image, sources))
    tables += attempt(lambda: _select_dynamic(image))
    tables += attempt(lambda: _select_carried(image))
    return tables, [entries]


def _select_static(image: Image, source: str) -> FunctionTable | None:
    table = read_static_symbols(image)
    return None if table is None else select_functions(image, table, source)


def _select_debug(image: Image, path: str, roots: Sequence[str]) -> FunctionTable | None:
    with open_debug_image(image, path, roots) as found:
        return None if found is None else _select_static(found, "debug file")


def _select_fetched(image: Image, sources: NameSources) -> FunctionTable | None:
    build_id = find_build_id(image)
    if sources.servers is None or build_id is None:
        return None
    found = sources.servers.find(build_id)
    if found is None:
        return None
    with found:
        return _select_static(read_image(found), "debuginfod")


def _select_carried(image: Image) -> FunctionTable | None:
    carried = read_debug_data(image)
    return None if carried is None else _select_static(carried, "gnu_debugdata")


def _select_dynamic(image: Image) -> FunctionTable | None:
    table = read_dynamic_symbols(image)
    return None if table is None else select_functions(image, table, "dynsym")
