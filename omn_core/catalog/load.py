"""Reading every installed plugin's catalog, or a folder that stands in for all of them.

A plugin whose catalog does not load is its record's reason and takes only its own sources with it. What was read of
each is kept in the user's cache by its content, so that a warm start parses no YAML, and who says what is asked waits
for the files of the plugins that name it, and for no others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from omn_core import __version__
from omn_core.cache import compute_fingerprint, read_cached, write_cached
from omn_core.catalog.kept import PluginText, Read, ReadFile, from_plain, to_plain, widen
from omn_core.catalog.package_files import DATA, get_package_folder
from omn_core.errors import PLUGIN_FAULTS, CatalogError
from omn_core.model.catalog import Catalog, Entry, Vocabulary
from omn_core.model.family import FamilyDefault
from omn_core.model.walks import Walk
from omn_core.plugins import PluginRecord, Registry, settle_clash

VOCABULARY = "vocabulary.yaml"
WALKS = "unwind.yaml"
APART = frozenset({VOCABULARY, WALKS, "known.yaml"})
"""Files of a catalog folder that hold no entries."""


def load_catalog(registry: Registry, folder: Path | None = None, asked: Collection[str] | None = None) -> Catalog:
    """Return every entry of every loaded plugin, or of a folder's `*.yaml` alone.

    Where sources and families are `asked`, of the plugins alone whose files name one of them, unless one of them is
    missing then. Plugins' problems go to their records. Raises CatalogError, with file, line and entry, for a folder's,
    and for a folder that cannot be read.
    """
    words_text, texts = _read_texts(registry, folder)
    chosen = texts if asked is None or folder is not None else _choose_texts(texts, asked)
    words, found = _read_files(registry, words_text, chosen)
    if asked is not None and len(chosen) < len(texts) and not _has_all(found, asked):
        chosen = texts
        words, found = _read_files(registry, words_text, chosen)
    if folder is not None:
        made = _catalog_of_folder(words, found)
    else:
        made = _catalog_of_plugins(registry, words, found)
        _check_collectors(registry, made.entries, is_whole=len(chosen) == len(texts))
    return attrs.evolve(made, list_walks=_make_walks_reader(registry, folder))


def _choose_texts(texts: Sequence[PluginText], asked: Collection[str]) -> list[PluginText]:
    """Return every text of the plugins that name one of these. An id stands in its file as it is asked."""
    spelled = [word if "." in word else f"{word}." for word in asked]
    naming = {plugin for plugin, _, text in texts if any(word in text for word in spelled)}
    return [one for one in texts if one[0] in naming]


def _has_all(found: Sequence[ReadFile], asked: Collection[str]) -> bool:
    entries = [entry for file in found for entry in file.entries]
    return {entry.id for entry in entries}.union(entry.family for entry in entries).issuperset(asked)


def _read_files(registry: Registry, words_text: str, texts: Sequence[PluginText]) -> Read:
    """Return the shared vocabulary and every file, each plugin's from the cache where they are there."""
    plugins = dict.fromkeys(plugin for plugin, _, _ in texts) or [""]
    read = [_read_plugin(registry, words_text, [one for one in texts if one[0] == plugin]) for plugin in plugins]
    return read[0][0], tuple(file for _, files_read in read for file in files_read)


def _read_plugin(registry: Registry, words_text: str, texts: Sequence[PluginText]) -> Read:
    kind = ".".join(dict.fromkeys(("catalog", *(plugin for plugin, _, _ in texts if plugin))))
    name = f"{kind}-{_fingerprint(registry, words_text, texts)}.json"
    read = _from_cache(name)
    if read is None:
        from omn_core.catalog.read import read_files

        read = read_files(registry.requirements, registry.emits, words_text, texts)
        write_cached(name, json.dumps(to_plain(read)).encode())
    return read


def _make_walks_reader(registry: Registry, folder: Path | None) -> Callable[[], tuple[Walk, ...]]:
    """Return what reads the ways to walk a stack. A folder's own are read at once, so that a fault in them is said."""

    def read() -> tuple[Walk, ...]:
        from omn_core.catalog.walks import load_walks

        return load_walks(registry.requirements, folder)

    if folder is None or not (folder / WALKS).exists():
        return read
    walks = read()
    return lambda: walks


def _read_texts(registry: Registry, folder: Path | None) -> tuple[str, list[PluginText]]:
    """Return the vocabulary's text, and every file of entries."""
    shared = (get_package_folder(DATA) / VOCABULARY).read_text()
    if folder is not None:
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".yaml")
            own = folder / VOCABULARY
            words = own.read_text() if own in paths else shared
            return words, [("", str(path), path.read_text()) for path in paths if path.name not in APART]
        except (OSError, UnicodeDecodeError) as error:
            raise CatalogError(str(folder), None, f"this catalog folder cannot be read: {error}") from error
    texts = []
    for record in registry.records:
        if record.catalog_package is not None and record.state in ("loaded", "clash"):
            texts += [(record.name, path, text) for path, text in _iter_package_files(record)]
    return shared, texts


def _iter_package_files(record: PluginRecord) -> Iterator[tuple[str, str]]:
    package = record.catalog_package or ""
    try:
        found = sorted(get_package_folder(package).glob("*.yaml"))
        for item in found:
            yield f"{package}/{item.name}", item.read_text(encoding="utf-8")
        if not found:
            record.fail("failed", f"its catalog package {package!r} holds no YAML file")
    except PLUGIN_FAULTS as error:  # a guarded plugin call: a package is found by importing it
        record.fail("failed", f"its catalog package {package!r} cannot be read: {type(error).__name__}: {error}")


def _fingerprint(registry: Registry, words: str, texts: Sequence[PluginText]) -> str:
    """Identify the content and everything else that reading depends on."""
    classes = sorted((row.kind, row.argument or "") for row in registry.requirements.values())
    emits = sorted(map(attrs.astuple, registry.emits.values()))
    return compute_fingerprint([__version__, words, texts, classes, emits])


def _from_cache(name: str) -> Read | None:
    content = read_cached(name)
    if content is None:
        return None
    try:
        return from_plain(json.loads(content))
    except (ValueError, TypeError, LookupError, AttributeError):
        return None  # a cache that does not read back whole is one nobody wrote


def _catalog_of_folder(words: Vocabulary, found: tuple[ReadFile, ...]) -> Catalog:
    entries: dict[str, Entry] = {}
    for file in found:
        if file.problems:
            raise _as_error(file)
        words = widen(words, file.words)
        for entry in file.entries:
            if entry.id in entries:
                earlier = entries[entry.id]
                reason = f"it is in {earlier.path}:{earlier.line} already"
                raise CatalogError(file.path, entry.line, reason, entry.id)
            entries[entry.id] = entry
    return Catalog(dict(sorted(entries.items())), words, defaults=_gather_defaults(found))


def _gather_defaults(found: tuple[ReadFile, ...]) -> dict[str, FamilyDefault]:
    """Return each family's default. A file that has a second one has a problem, and gives none."""
    made = [default for file in found for default in file.defaults]
    return {default.family: default for default in sorted(made, key=lambda one: one.family)}


def _as_error(file: ReadFile) -> CatalogError:
    """Return the first problem of a file as an error, the rest counted."""
    first = file.problems[0].removeprefix(file.path).removeprefix(":")
    line, colon, reason = first.partition(": ")
    more = f" (and {len(file.problems) - 1} more)" if len(file.problems) > 1 else ""
    if colon and line.isdigit():
        return CatalogError(file.path, int(line), reason + more)
    return CatalogError(file.path, None, first.removeprefix(" ") + more)


def _catalog_of_plugins(registry: Registry, words: Vocabulary, found: tuple[ReadFile, ...]) -> Catalog:
    claims: dict[str, list[tuple[PluginRecord, Entry]]] = {}
    by_package = {record.catalog_package: record for record in registry.records if record.catalog_package}
    for file in found:
        record = by_package[file.path.rpartition("/")[0]]
        if file.problems:
            more = f" (and {len(file.problems) - 1} more)" if len(file.problems) > 1 else ""
            record.fail("failed", f"its catalog does not load: {file.problems[0]}{more}")
        words = widen(words, file.words)
        for written in file.entries:
            claims.setdefault(written.id, []).append((record, written))
    entries: dict[str, Entry] = {}
    distributions: dict[str, str] = {}
    for record in registry.records:
        record.sources, record.backends = [], 0
    for identifier, claimants in sorted(claims.items()):
        entry = settle_clash(f"source {identifier}", claimants, None)
        if entry is not None:
            record = next(record for record, claim in claimants if claim is entry)
            entries[identifier] = entry
            distributions[identifier] = record.distribution or record.name
            record.sources.append(identifier)
            record.backends += len(entry.chain)
    return Catalog(entries, words, distributions, _gather_defaults(found))


def _check_collectors(registry: Registry, entries: Mapping[str, Entry], *, is_whole: bool) -> None:
    """A collector row for a pair that no catalog declares is its plugin's mistake, and is said as one.

    Of a source that was not read, where not every file was, nothing is known.
    """
    for record in registry.records:
        for row in record.rows.get("collectors", ()):
            entry = entries.get(row.source)
            is_missing = is_whole if entry is None else entry.backend(row.backend) is None
            if record.state == "loaded" and is_missing:
                record.fail("failed", f"it collects {row.source}/{row.backend}, which no catalog declares")
