"""Reading catalog files and checking them against the rules: what is wrong with each stands beside what it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import attrs
import cattrs

from omn_core.catalog.check import check_entry, check_vocabulary
from omn_core.catalog.default import check_default
from omn_core.catalog.kept import PluginText, Read, ReadFile, widen
from omn_core.catalog.shape import (
    WrittenDefault,
    WrittenEntry,
    WrittenFile,
    make_added_words,
    make_catalog_converter,
    make_default,
    make_entry,
)
from omn_core.errors import CatalogError
from omn_core.located import Located, LocatedError, Path, parse_yaml
from omn_core.model.catalog import Entry, Vocabulary
from omn_core.model.rows import EmitRow, RequirementRow
from omn_core.structure import make_converter, structure


def read_files(
    classes: Mapping[str, RequirementRow], emits: Mapping[str, EmitRow], words_text: str, texts: Sequence[PluginText]
) -> Read:
    """Return the shared vocabulary, and every file, read and checked."""
    converter = make_catalog_converter(classes)
    words = _read_vocabulary(words_text)
    drafts = [_read_draft(converter, *text) for text in texts]
    for draft in drafts:
        draft.check_entries(words, emits)
    for plugin in {draft.plugin for draft in drafts}:
        _check_defaults([draft for draft in drafts if draft.plugin == plugin], words, emits)
    return words, tuple(draft.finish() for draft in drafts)


@lru_cache(maxsize=1)
def _read_vocabulary(text: str) -> Vocabulary:
    """Read the shared words, once for all plugins."""
    return structure(make_converter(), parse_yaml(text), Vocabulary)


@attrs.define
class _Draft:
    """One file while it is checked. `entries` maps its ids to what was made of them, None for one that breaks a rule.

    A file that cannot be read as one is empty, and has a problem.
    """

    plugin: str
    path: str
    located: Located
    written: WrittenFile
    problems: list[str] = attrs.field(factory=list)
    entries: dict[str, Entry | None] = attrs.field(factory=dict)

    def iter_entries(self) -> Iterator[tuple[Path, WrittenEntry]]:
        """Yield each entry with its path."""
        for index, item in enumerate(self.written.sources):
            if isinstance(item, WrittenEntry):
                yield ("sources", index), item

    def iter_defaults(self) -> Iterator[tuple[Path, WrittenDefault]]:
        """Yield each default with its path."""
        for index, item in enumerate(self.written.sources):
            if isinstance(item, WrittenDefault):
                yield ("sources", index), item

    def line(self, path: Path) -> int:
        """Return the line of an item, 0 where none is known."""
        return self.located.line(path) or 0

    def complain(self, path: Path, reason: str, entry: str | None = None) -> None:
        """Add a problem at a path of the file."""
        self.problems.append(str(CatalogError(self.path, self.located.line(path), reason, entry)))

    def check_entries(self, words: Vocabulary, emits: Mapping[str, EmitRow]) -> None:
        """Check the file's own words and every entry, and make what keeps the rules."""
        for inner, reason in check_vocabulary(self.written.vocabulary, self.plugin) if self.plugin else ():
            self.complain(("vocabulary", *inner), reason)
        words = widen(words, make_added_words(self.written.vocabulary))
        seen: dict[str, int] = {}
        for path, entry in self.iter_entries():
            complaints = list(check_entry(entry, self.plugin or None, words, [*emits, *words.emits]))
            for inner, reason in complaints:
                self.complain((*path, *inner), reason, entry.id)
            if entry.id in seen:
                self.complain((*path, "id"), f"it is on line {seen[entry.id]} already", entry.id)
            seen.setdefault(entry.id, self.line(path))
            self.entries[entry.id] = None if complaints else make_entry(entry, self.path, self.line(path))

    def finish(self) -> ReadFile:
        """Return what the file gives: nothing but its problems, where it has one."""
        words = make_added_words(self.written.vocabulary)
        if self.problems:
            return ReadFile(self.path, (), (), words, tuple(self.problems))
        entries = tuple(make_entry(entry, self.path, self.line(path)) for path, entry in self.iter_entries())
        defaults = tuple(make_default(default, self.path, self.line(path)) for path, default in self.iter_defaults())
        return ReadFile(self.path, entries, defaults, words, ())


def _read_draft(converter: cattrs.Converter, plugin: str, path: str, text: str) -> _Draft:
    try:
        located = parse_yaml(text)
        if isinstance(located.value, list):
            located = Located({"sources": located.value}, {("sources", *p): line for p, line in located.lines.items()})
        return _Draft(plugin, path, located, structure(converter, located, WrittenFile))
    except LocatedError as error:
        return _Draft(plugin, path, Located(None), WrittenFile(()), [str(CatalogError(path, error.line, error.reason))])


def _check_defaults(drafts: Sequence[_Draft], words: Vocabulary, emits: Mapping[str, EmitRow]) -> None:
    """Check the defaults of one plugin's files, or of a folder's, which may ask any source that stands in them."""
    for draft in drafts:
        words = widen(words, make_added_words(draft.written.vocabulary))
    seen: dict[str, str] = {}
    for draft in drafts:
        for path, default in draft.iter_defaults():
            name = f"default of {default.default}"
            family = {
                source: entry
                for one in drafts
                for source, entry in one.entries.items()
                if source.startswith(f"{default.default}.")
            }
            for inner, reason in check_default(default, draft.plugin or None, family, words.units, emits):
                draft.complain((*path, *inner), reason, name)
            place = f"{draft.path}:{draft.line(path)}"
            if default.default in seen:
                draft.complain(path, f"it is in {seen[default.default]} already", name)
            seen.setdefault(default.default, place)
