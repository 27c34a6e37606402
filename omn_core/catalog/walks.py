"""The ways to walk a stack: a chain of the core's own, or of a catalog folder, held to the rules of every chain."""

from __future__ import annotations

import json
import re
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
from omn_core.catalog.check import Complaint, check_rank, iter_unknown
from omn_core.catalog.known import DATA
from omn_core.catalog.requirement import parse_need
from omn_core.errors import CatalogError
from omn_core.located import LocatedError, parse_yaml
from omn_core.model.catalog import BANDS
from omn_core.model.probe import Need
from omn_core.model.rows import RequirementRow
from omn_core.model.walks import AUTO, NONE, Walk
from omn_core.structure import make_converter, structure

TABLE = "unwind.yaml"
_ID = "stack.unwind"
_NAME = re.compile(r"[a-z][a-z0-9+_-]*")

Classes = Mapping[str, RequirementRow]


@attrs.frozen
class WrittenWalks:
    """The table's one item as written."""

    id: str
    title: str
    chain: tuple[Walk, ...]


def load_walks(classes: Classes, folder: Path | None = None) -> tuple[Walk, ...]:
    """Return the ways to walk a stack, best first: those of a folder that lists its own, else the core's.

    Raises CatalogError, with file and line, for a table that breaks a rule or cannot be read. The core's names classes
    of requirements of plugins that may not be installed: what those ask is unknown then. A folder's own may not.
    """
    if folder is not None and (folder / TABLE).exists():
        try:
            return parse_walks(str(folder / TABLE), (folder / TABLE).read_text(), classes, is_own=False)
        except (OSError, UnicodeDecodeError) as error:
            raise CatalogError(str(folder / TABLE), None, f"this table cannot be read: {error}") from error
    text = (files(DATA) / TABLE).read_text()
    converter = _make_converter(classes, is_own=True)
    name = f"walks-{_fingerprint(text, classes)}.json"
    found = _from_cache(name, converter)
    if found is None:
        found = parse_walks(TABLE, text, classes, is_own=True)
        write_cached(name, json.dumps(converter.unstructure(found)).encode())
    return found


def parse_walks(path: str, text: str, classes: Classes, *, is_own: bool) -> tuple[Walk, ...]:
    """Read a table. Raises CatalogError for the first thing that is wrong; `is_own` says that it is the core's own."""
    try:
        located = parse_yaml(text)
        items = structure(_make_converter(classes, is_own=is_own), located, tuple[WrittenWalks, ...])
    except LocatedError as error:
        raise CatalogError(path, error.line, error.reason) from error
    for inner, reason in _iter_faults(items):
        raise CatalogError(path, located.line(inner), reason, _ID)
    return items[0].chain


def _make_converter(classes: Classes, *, is_own: bool) -> cattrs.Converter:
    def read(text: Any, _: Any) -> Need:
        if not isinstance(text, str):
            raise TypeError(f"a requirement is a text, not {text!r}")
        kind, _, argument = text.partition(":")
        is_installed = any(text.startswith(one) if one.endswith(">=") else kind == one for one in classes)
        return Need(text, kind, argument) if is_own and not is_installed else parse_need(text, classes)

    converter = make_converter()
    converter.register_structure_hook(Need, read)
    converter.register_unstructure_hook(Need, lambda need: need.text)
    return converter


def _fingerprint(text: str, classes: Classes) -> str:
    """Identify the content and everything else that reading depends on."""
    known = sorted((row.kind, row.argument or "") for row in classes.values())
    return blake2b(json.dumps([__version__, text, known]).encode(), digest_size=16).hexdigest()


def _from_cache(name: str, converter: cattrs.Converter) -> tuple[Walk, ...] | None:
    content = read_cached(name)
    try:
        return None if content is None else converter.structure(json.loads(content), tuple[Walk, ...])
    except (ValueError, TypeError, LookupError, AttributeError, BaseValidationError):
        return None  # a cache that does not read back whole is one nobody wrote


def _iter_faults(items: tuple[WrittenWalks, ...]) -> Iterator[Complaint]:
    """Yield what is wrong with a table: its names, and what every chain is held to."""
    if len(items) != 1 or items[0].id != _ID:
        yield (), f"the table is one item, and its id is {_ID}"
        return
    chain = items[0].chain
    seen = [walk.id for walk in chain]
    for index, walk in enumerate(chain):
        path = (0, "chain", index)
        if walk.id in seen[:index]:
            yield (*path, "id"), f"the walk {walk.id!r} is in the chain twice"
        if walk.id == AUTO or not _NAME.fullmatch(walk.id):
            yield (*path, "id"), f"{walk.id!r} is no name of a walk"
        yield from iter_unknown((*path, "cost"), "cost band", [walk.cost], BANDS)
        for inner, reason in check_rank(walk, index):
            yield (*path, *inner), f"{walk.id}: {reason}"
    if NONE not in seen[-1:]:
        yield (0, "chain"), f"the last walk of a chain is {NONE!r}, which every machine has"
