"""`omn help FAMILY`: its sources, what its name alone asks within each cost band, and how to ask it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from omn_core.model.catalog import Catalog
from omn_core.model.family import FamilyDefault
from omn_core.plugins import Registry
from omn_core.resolve.fit import Fit, spell_kind
from omn_core.session.command import render_command

_COLUMNS = 80
_EXAMPLES = {
    "launch": "-- ./server",
    "pid": "--pid 4711 -d 10s",
    "system": "--system -d 10s",
    "cgroup": "--cgroup /my/group -d 10s",
}


def iter_family_help(family: str, catalog: Catalog, registry: Registry) -> Iterator[str]:
    """Yield the lines that explain a family of the catalog."""
    entries = [entry for entry in catalog.entries.values() if entry.family == family]
    yield f"{family}: a family of {len(entries)} source{'s' if len(entries) > 1 else ''}"
    yield ""
    width = max(len(entry.id) for entry in entries)
    for entry in entries:
        yield from _wrap(f"  {entry.id:{width}}  {entry.title}", width + 4)
    yield ""
    default = catalog.defaults.get(family)
    if default is None:
        yield "  it declares nothing that its name alone asks: ask one of its sources"
    elif default.none is not None:
        yield from _wrap(f"  its name alone asks nothing: {default.none}", 4)
    else:
        yield from _iter_default(default, catalog, registry)


def _iter_default(default: FamilyDefault, catalog: Catalog, registry: Registry) -> Iterator[str]:
    cheapest = next(iter(default.bands))
    yield f"  'omn {default.family}' asks, where the source serves the target,"
    for band, requests in default.bands.items():
        mark = ", or no --cost" if band == cheapest else ""
        yield f"  with --cost {band}{mark}"
        for request in requests:
            yield from _wrap(f"    {render_command(request)}", 6)
    yield ""
    kinds = Fit(catalog, registry, cheapest).list_kinds(default.bands[cheapest])
    yield from _wrap(f"  target     {', '.join(map(spell_kind, kinds))}", 13)
    yield "  for example"
    for kind, example in _EXAMPLES.items():
        if kind in kinds:
            yield f"    omn {default.family} {example}"


def _wrap(line: str, hang: int) -> list[str]:
    return textwrap.wrap(line, _COLUMNS, subsequent_indent=" " * hang, break_on_hyphens=False, break_long_words=False)
