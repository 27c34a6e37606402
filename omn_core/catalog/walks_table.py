"""The table of the ways to walk a stack, read and held to the rules of every chain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import cattrs

from omn_core.catalog.check import Complaint, check_rank, iter_unknown
from omn_core.catalog.requirement import parse_need
from omn_core.errors import CatalogError
from omn_core.located import LocatedError, parse_yaml
from omn_core.model.catalog import BANDS
from omn_core.model.probe import Need
from omn_core.model.rows import RequirementRow
from omn_core.model.walks import AUTO, NONE, Walk
from omn_core.structure import make_converter, structure

_ID = "stack.unwind"
_NAME = re.compile(r"[a-z][a-z0-9+_-]*")

Classes = Mapping[str, RequirementRow]


@attrs.frozen
class WrittenWalks:
    """The table's one item as written."""

    id: str
    title: str
    chain: tuple[Walk, ...]


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
    return converter


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
