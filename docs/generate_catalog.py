"""Write the manual's catalog pages from the installed families: `python docs/generate_catalog.py`.

One page for each family that ships with omn, its sources in the order of their names, everything taken from the catalog
and the registry; a test holds the pages to what this makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omn_core.catalog.known import read_known
from omn_core.catalog.load import load_catalog
from omn_core.model.catalog import Backend, Catalog, Entry
from omn_core.model.family import FamilyDefault
from omn_core.model.target import KINDS
from omn_core.plugins import Registry, discover
from omn_core.session.command import render_command

PAGES = Path(__file__).parent / "catalog"
_PROGRAM = "bpf:"
"""How the names of backends begin that are programs in the kernel."""
SPELLINGS = {"launch": "-- PROGRAM"}
"""How a target is written where that is not `--` and its kind."""


def render_pages(catalog: Catalog, registry: Registry) -> dict[str, str]:
    """Return each page's text by its file name: those of the families, and the one that lists them."""
    shipped = read_known().distributions
    families = [family for family in catalog.families() if _owner(catalog, family) in shipped]
    pages = {f"{family}.md": "\n".join([*_iter_family(catalog, registry, family), ""]) for family in families}
    programs = "\n".join([*_iter_programs(catalog, registry, families), ""])
    return {"index.md": "\n".join([*_iter_index(catalog, families), ""]), "programs.md": programs, **pages}


def _owner(catalog: Catalog, family: str) -> str:
    return next(catalog.distributions[entry.id] for entry in catalog.entries.values() if entry.family == family)


def _entries(catalog: Catalog, family: str) -> list[Entry]:
    return [entry for entry in catalog.entries.values() if entry.family == family]


def _iter_index(catalog: Catalog, families: Sequence[str]) -> Iterator[str]:
    yield "# The catalog"
    yield ""
    yield "What each source measures, on what, how, and through which mechanisms. These pages are made of the families'"
    yield "catalogs. `omn catalog SOURCE` prints an entry as it stands; `omn list` asks the machine you are on."
    yield ""
    yield "```{toctree}"
    yield from families
    yield "programs"
    yield "```"
    yield ""
    yield from _table(
        ("source", "what it measures"),
        [(f"[`{e.id}`]({family}.md)", e.title) for family in families for e in _entries(catalog, family)],
    )


def _iter_programs(catalog: Catalog, registry: Registry, families: Sequence[str]) -> Iterator[str]:
    yield "# Programs in the kernel"
    yield ""
    yield "The sources that programs in the kernel (eBPF) serve, by what is left where these are not allowed or not"
    yield "there: nothing, or what else their chains hold, which may serve fewer targets, modes and keys. A source"
    yield "says in its chain which. [Privileges](../privileges.md) says what programs take."
    yield ""
    rows = []
    for family in families:
        alone, beside = [], []
        for entry in _entries(catalog, family):
            through = [backend.id for backend in entry.chain if (entry.id, backend.id) in registry.collectors]
            programs = [backend for backend in through if backend.startswith(_PROGRAM)]
            if programs:
                (alone if programs == through else beside).append(entry.id)
        if alone or beside:
            rows.append((f"[`{family}`]({family}.md)", _words(alone), _words(beside)))
    yield from _table(("family", "through programs alone", "through programs, and something else"), rows)


def _iter_family(catalog: Catalog, registry: Registry, family: str) -> Iterator[str]:
    yield f"# The family `{family}`"
    yield ""
    yield f"From the distribution `{_owner(catalog, family)}`. Made of its catalog by `docs/generate_catalog.py`."
    if family in catalog.defaults:
        yield ""
        yield from _iter_default(catalog.defaults[family])
    for entry in _entries(catalog, family):
        yield ""
        yield f"## {entry.id}"
        yield ""
        yield f"{entry.title}."
        yield ""
        yield from _iter_question(entry, catalog, registry)
        yield ""
        yield from _iter_targets(entry, registry)
        yield ""
        yield from _iter_fields(entry)
        yield ""
        yield from _iter_chain(entry, registry)


def _iter_default(default: FamilyDefault) -> Iterator[str]:
    yield f"## `omn {default.family}` alone"
    yield ""
    if default.none is not None:
        yield f"Composes nothing: {default.none}."
        return
    yield "Asks what its band holds and the target serves ([a family's name](../lazy.md))."
    yield ""
    rows = [
        (f"`--cost {band}`", f"`{render_command(request)}`")
        for band, requests in default.bands.items()
        for request in requests
    ]
    yield from _table(("band", "asks"), rows)


def _iter_question(entry: Entry, catalog: Catalog, registry: Registry) -> Iterator[str]:
    meaning = catalog.vocabulary.units[entry.unit].meaning
    yield f"- Measures `{entry.value}`, in {entry.unit}{'' if meaning == entry.unit else f' ({meaning})'}."
    yield from (_describe_mode(entry, mode, registry) for mode in entry.modes)
    yield f"- Keys: {_words(entry.keys)}."
    yield f"- A filter may name: {_words(entry.filter_fields)}, and `value` and `kind`."
    yield f"- Determinism {entry.determinism}: {catalog.vocabulary.determinism[entry.determinism]}."
    if entry.stacks is not None:
        yield f"- Stacks: {entry.stacks}."
    if entry.overflow is not None:
        yield f"- Overflow: {entry.overflow}."
    yield from (f"- Caveat: {caveat}." for caveat in entry.caveats)


def _describe_mode(entry: Entry, mode: str, registry: Registry) -> str:
    default = entry.default.emits.get(mode)
    emits = ", ".join(f"`{emit}`" + (" (default)" if emit == default else "") for emit in entry.emits[mode])
    serving = [backend.id for backend in entry.chain if mode in entry.modes_of(backend)]
    is_collected = any((entry.id, backend) in registry.collectors for backend in serving)
    mark = (
        " (default)" if mode == entry.default.mode else "" if is_collected else " (declared; nothing collects it yet)"
    )
    return f"- Mode `{mode}`{mark}: {emits}."


def _iter_targets(entry: Entry, registry: Registry) -> Iterator[str]:
    rows = []
    for kind in KINDS:
        if kind in entry.targets:
            served = "yes" if kind in registry.targets else "declared; nothing installed finds one yet"
            reason = entry.targets[kind]
            rows.append((f"`{SPELLINGS.get(kind, f'--{kind}')}`", served if reason is None else f"no: {reason}"))
    yield from _table(("target", "served"), rows)


def _iter_fields(entry: Entry) -> Iterator[str]:
    rows = [(f"`{name}`", unit, "the value" if name == entry.value else "") for name, unit in entry.attributes.items()]
    yield from _table(("attribute", "unit", ""), rows)


def _iter_chain(entry: Entry, registry: Registry) -> Iterator[str]:
    yield "The chain, in the order it is walked:"
    yield ""
    rows = [(str(place), *_describe(entry, backend, registry)) for place, backend in enumerate(entry.chain, 1)]
    yield from _table(("", "backend", "requires", "cost", "serves only", "against the first", "collected"), rows)


def _describe(entry: Entry, backend: Backend, registry: Registry) -> tuple[str, ...]:
    if (entry.id, backend.id) in registry.collectors:
        collected = "yes" if backend.unseen is None else f"yes, never run on its hardware: {backend.unseen}"
    else:
        collected = f"no: {backend.uncollected}"
    compared = backend.degrades or ("equivalent" if backend.equivalent else "the reference")
    regimes = "".join(f", {band} when {regime}" for regime, band in backend.cost_by_regime.items())
    needs = " ".join(f"`{need.text}`" for need in backend.requires)
    return f"`{backend.id}`", needs, backend.cost + regimes, _subset(backend), compared, collected


def _subset(backend: Backend) -> str:
    """Say in what a backend serves less than its entry, or measures in another unit."""
    parts: Mapping[str, Sequence[str] | None] = {
        "modes": backend.modes or None,
        "emits": backend.emits or None,
        "targets": backend.targets or None,
        "keys": backend.keys,
        "filter": backend.filter_fields,
    }
    said = [f"{name} {_words(words)}" for name, words in parts.items() if words is not None]
    return "; ".join([*said, *([f"in {backend.unit}"] if backend.unit is not None else [])])


def _words(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words) or "none"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from (_row(row) for row in rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def find_absent(catalog: Catalog) -> list[str]:
    """Return the families of this tree that are not installed: their pages cannot be made here."""
    folders = Path(__file__).parents[1].glob("plugins/*/omn_*/catalog.yaml")
    return sorted({path.parent.name.removeprefix("omn_") for path in folders} - set(catalog.families()))


def main() -> None:
    """Write every page. Ends with a message where a family of this tree is not installed."""
    registry = discover()
    catalog = load_catalog(registry)
    absent = find_absent(catalog)
    if absent:
        sys.exit(f"not installed, and its page cannot be made: {', '.join(absent)}")
    PAGES.mkdir(exist_ok=True)
    for name, text in render_pages(catalog, registry).items():
        (PAGES / name).write_text(text)


if __name__ == "__main__":
    main()
