"""Reading every installed plugin's catalog, or a folder that stands in for all of them.

A plugin whose catalog does not load is its record's reason and takes only its own sources with it. What was read is
kept in the user's cache by its content, so that a warm start parses no YAML.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import cattrs
from cattrs.errors import BaseValidationError

from omn_core import __version__
from omn_core.cache import read_cached, write_cached
from omn_core.catalog.check import check_entry, check_vocabulary
from omn_core.catalog.known import DATA
from omn_core.catalog.shape import (
    WrittenEntry,
    WrittenFile,
    WrittenVocabulary,
    make_catalog_converter,
    make_entry,
)
from omn_core.errors import PLUGIN_FAULTS, CatalogError
from omn_core.located import Located, LocatedError, parse_yaml
from omn_core.model.catalog import Catalog, Entry, Vocabulary
from omn_core.plugins import PluginRecord, Registry, settle_clash
from omn_core.structure import structure

VOCABULARY = "vocabulary.yaml"
APART = frozenset({VOCABULARY, "unwind.yaml", "known.yaml"})
"""Files of a catalog folder that hold no entries."""


@attrs.frozen
class ReadFile:
    """One catalog file, read and checked: its entries with their lines, the words it adds, and what was wrong."""

    path: str
    entries: tuple[tuple[int, WrittenEntry], ...]
    vocabulary: WrittenVocabulary
    problems: tuple[str, ...]


def load_catalog(registry: Registry, folder: Path | None = None) -> Catalog:
    """Return every entry of every loaded plugin, or of a folder's `*.yaml` alone.

    Plugins' problems go to their records. Raises CatalogError, with file, line and entry, for a folder's, and for a
    folder that cannot be read.
    """
    converter = make_catalog_converter(registry.requirements)
    words_text, texts = _read_texts(registry, folder)
    name = f"catalog-{_fingerprint(registry, words_text, texts)}.json"
    read = _from_cache(name, converter)
    if read is None:
        read = _read_all(registry, converter, words_text, texts)
        plain = {"words": converter.unstructure(read[0]), "files": converter.unstructure(read[1])}
        write_cached(name, json.dumps(plain).encode())
    words, found = read
    if folder is not None:
        return _catalog_of_folder(words, found)
    return _catalog_of_plugins(registry, words, found)


def _read_texts(registry: Registry, folder: Path | None) -> tuple[str, list[tuple[str, str, str]]]:
    """Return the vocabulary's text, and (plugin name or '', path, text) of every file of entries."""
    shared = (files(DATA) / VOCABULARY).read_text()
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
        found = sorted((item for item in files(package).iterdir() if item.name.endswith(".yaml")), key=lambda i: i.name)
        for item in found:
            yield f"{package}/{item.name}", item.read_text(encoding="utf-8")
        if not found:
            record.fail("failed", f"its catalog package {package!r} holds no YAML file")
    except PLUGIN_FAULTS as error:  # a guarded plugin call: a package is found by importing it
        record.fail("failed", f"its catalog package {package!r} cannot be read: {type(error).__name__}: {error}")


def _fingerprint(registry: Registry, words: str, texts: list[tuple[str, str, str]]) -> str:
    """Identify the content and everything else that reading depends on."""
    classes = sorted((row.kind, row.argument or "") for row in registry.requirements.values())
    parts = json.dumps([__version__, words, texts, classes, sorted(registry.emits)])
    return blake2b(parts.encode(), digest_size=16).hexdigest()


def _from_cache(name: str, converter: cattrs.Converter) -> tuple[Vocabulary, tuple[ReadFile, ...]] | None:
    content = read_cached(name)
    if content is None:
        return None
    try:
        plain = json.loads(content)
        return (
            converter.structure(plain["words"], Vocabulary),
            converter.structure(plain["files"], tuple[ReadFile, ...]),
        )
    except (ValueError, TypeError, LookupError, AttributeError, BaseValidationError):
        return None  # a cache that does not read back whole is one nobody wrote


def _read_all(
    registry: Registry, converter: cattrs.Converter, words_text: str, texts: list[tuple[str, str, str]]
) -> tuple[Vocabulary, tuple[ReadFile, ...]]:
    words = structure(converter, parse_yaml(words_text), Vocabulary)
    emits = [*registry.emits, *words.emits]
    return words, tuple(_read_file(converter, words, emits, *text) for text in texts)


def _read_file(
    converter: cattrs.Converter, words: Vocabulary, emits: list[str], plugin: str, path: str, text: str
) -> ReadFile:
    """Read one file: what is wrong with it is in `problems`, and then it gives no entries."""
    try:
        located = parse_yaml(text)
        if isinstance(located.value, list):
            located = Located({"sources": located.value}, {("sources", *p): line for p, line in located.lines.items()})
        written = structure(converter, located, WrittenFile)
    except LocatedError as error:
        return ReadFile(path, (), WrittenVocabulary(), (str(CatalogError(path, error.line, error.reason)),))
    problems = [
        str(CatalogError(path, located.line(("vocabulary", *inner)), reason))
        for inner, reason in check_vocabulary(written.vocabulary, plugin or "")
        if plugin
    ]
    words = _widen(words, written.vocabulary)
    seen: dict[str, int] = {}
    for index, entry in enumerate(written.sources):
        for inner, reason in check_entry(entry, plugin or None, words, emits):
            line = located.line(("sources", index, *inner))
            problems.append(str(CatalogError(path, line, reason, entry.id)))
        if entry.id in seen:
            line = located.line(("sources", index, "id"))
            problems.append(str(CatalogError(path, line, f"it is on line {seen[entry.id]} already", entry.id)))
        seen.setdefault(entry.id, located.line(("sources", index)) or 0)
    entries = tuple((located.line(("sources", i)) or 0, entry) for i, entry in enumerate(written.sources))
    return ReadFile(path, () if problems else entries, written.vocabulary, tuple(problems))


def _widen(words: Vocabulary, added: WrittenVocabulary) -> Vocabulary:
    return attrs.evolve(words, keys={**words.keys, **added.keys}, units={**words.units, **added.units})


def _catalog_of_folder(words: Vocabulary, found: tuple[ReadFile, ...]) -> Catalog:
    entries: dict[str, Entry] = {}
    for file in found:
        if file.problems:
            raise _as_error(file)
        words = _widen(words, file.vocabulary)
        for line, written in file.entries:
            if written.id in entries:
                earlier = entries[written.id]
                reason = f"it is in {earlier.path}:{earlier.line} already"
                raise CatalogError(file.path, line, reason, written.id)
            entries[written.id] = make_entry(written, file.path, line)
    return Catalog(dict(sorted(entries.items())), words)


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
        words = _widen(words, file.vocabulary)
        for line, written in file.entries:
            claims.setdefault(written.id, []).append((record, make_entry(written, file.path, line)))
    entries: dict[str, Entry] = {}
    distributions: dict[str, str] = {}
    for identifier, claimants in sorted(claims.items()):
        entry = settle_clash(f"source {identifier}", claimants, None)
        if entry is not None:
            record = next(record for record, claim in claimants if claim is entry)
            entries[identifier] = entry
            distributions[identifier] = record.distribution or record.name
            record.sources.append(identifier)
            record.backends += len(entry.chain)
    _check_collectors(registry, entries)
    return Catalog(entries, words, distributions)


def _check_collectors(registry: Registry, entries: Mapping[str, Any]) -> None:
    """A collector row for a pair that no catalog declares is its plugin's mistake, and is said as one."""
    for record in registry.records:
        for row in record.rows.get("collectors", ()):
            entry = entries.get(row.source)
            if record.state == "loaded" and (entry is None or entry.backend(row.backend) is None):
                record.fail("failed", f"it collects {row.source}/{row.backend}, which no catalog declares")
