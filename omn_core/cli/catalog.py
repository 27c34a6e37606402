"""`omn catalog`: entries as they stand, from whichever catalog is in force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click

from omn_core.cli.app import get_application
from omn_core.cli.offer import offer
from omn_core.cli.output import write_plain
from omn_core.cli.parameters import FOLDER
from omn_core.model.catalog import Backend, Entry, Vocabulary
from omn_core.model.family import FamilyDefault
from omn_core.resolve.complete import find_entry

_LISTS = ("keys", "filter_fields")
"""Fields whose empty list says something: that there is none."""


@click.command("catalog", epilog="\b\nExamples:\n  omn catalog mem.rss\n  omn catalog mem --format json\n")
@click.argument("word", required=False, shell_complete=offer("words"))
@click.option(
    "--format",
    "format_name",
    default="yaml",
    metavar="FORMAT",
    shell_complete=offer("plain formats"),
    help="yaml, json or toml.",
)
@click.option("--catalog", "folder", type=FOLDER, metavar="DIR", help="Read this folder.")
@click.pass_context
def catalog_command(context: click.Context, /, word: str | None, format_name: str, folder: Path | None) -> int:
    """Print the entry WORD, the family WORD with its default and its own words, or every entry."""
    application = get_application(context)
    application.catalog_folder = folder
    catalog = application.catalog
    if word is None or word in catalog.families():
        entries = [entry for entry in catalog.entries.values() if word in (None, entry.family)]
    else:
        entries = [find_entry(word, catalog, application.registry)]
    defaults = [default for family, default in catalog.defaults.items() if word in (None, family)]
    plain = [*map(make_plain_entry, entries), *map(make_plain_default, defaults)]
    words = {} if word is None else make_plain_words(catalog.vocabulary, word)
    write_plain(application, format_name, {"vocabulary": words, "sources": plain} if words else plain)
    return 0


def make_plain_words(vocabulary: Vocabulary, family: str) -> dict[str, Any]:
    """Return a family's own words as its file spells them: nothing where it has none, as no source's name does."""
    mine = f"{family}."
    keys = {name: meaning for name, meaning in vocabulary.keys.items() if name.startswith(mine)}
    units = {name: _plain(attrs.asdict(unit)) for name, unit in vocabulary.units.items() if name.startswith(mine)}
    labels = {name: attribute for name, attribute in vocabulary.labels.items() if name.startswith(mine)}
    apart = [name for name in vocabulary.apart if name.startswith(mine)]
    return _plain({"keys": keys, "units": units, "labels": labels, "apart": apart})


def make_plain_entry(entry: Entry) -> dict[str, Any]:
    """Return an entry in the words of its file."""
    plain: dict[str, Any] = {field.name: getattr(entry, field.name) for field in attrs.fields(Entry)}
    del plain["path"], plain["line"]
    plain["targets"] = {kind: "yes" if reason is None else f"no: {reason}" for kind, reason in entry.targets.items()}
    plain["emits"] = {mode: list(emits) for mode, emits in entry.emits.items()}
    plain["caveats"] = [caveat if isinstance(caveat, str) else caveat.to_plain() for caveat in entry.caveats]
    plain["default"] = _plain(attrs.asdict(entry.default))
    plain["chain"] = [make_plain_backend(backend) for backend in entry.chain]
    return _plain(plain) | {name: list(plain[name]) for name in _LISTS if not plain[name]}


def make_plain_default(default: FamilyDefault) -> dict[str, Any]:
    """Return a family's default in the words of its file."""
    from omn_core.session.shape import make_plain_request

    bands = {band: [make_plain_request(request) for request in requests] for band, requests in default.bands.items()}
    return _plain({"default": default.family, **bands, "none": default.none})


def make_plain_backend(backend: Backend) -> dict[str, Any]:
    """Return a backend in the words of its file."""
    plain: dict[str, Any] = {field.name: getattr(backend, field.name) for field in attrs.fields(Backend)}
    plain["requires"] = [need.text for need in backend.requires]
    return _plain(plain) | {name: [] for name in _LISTS if plain[name] == ()}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Leave out what nobody wrote, and make lists of tuples."""
    kept = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {name: value for name, value in kept.items() if value not in (None, [], {}, False)}
