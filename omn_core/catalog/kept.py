"""What the catalog's files came to, as the cache keeps it: read, checked, and made into the model's own classes.

Plain values become those again by name, without a second check and without what checks: the file is one that this user
alone could have written, under a name that is a digest of everything it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from omn_core.model.catalog import Backend, Default, Entry, TargetCaveat, UnitMeaning, Vocabulary
from omn_core.model.family import FamilyDefault
from omn_core.model.probe import Need
from omn_core.model.request import EmitSpec, Request

PluginText = tuple[str, str, str]
"""The name of the plugin that a file is of ('' in a folder), its path, its text."""


@attrs.frozen(repr=False)
class AddedWords:
    """The words a file adds to the shared ones, and what it says of its keys."""

    keys: Mapping[str, str] = attrs.field(factory=dict)
    units: Mapping[str, UnitMeaning] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    apart: tuple[str, ...] = ()


@attrs.frozen(repr=False)
class ReadFile:
    """One catalog file: its entries and defaults, the words it adds, and what was wrong.

    A file with problems gives no entries and no defaults.
    """

    path: str
    entries: tuple[Entry, ...]
    defaults: tuple[FamilyDefault, ...]
    words: AddedWords
    problems: tuple[str, ...]


Read = tuple[Vocabulary, tuple[ReadFile, ...]]
"""The shared vocabulary, and every file."""


def widen(words: Vocabulary, added: AddedWords) -> Vocabulary:
    """Return a vocabulary with the keys and units that a file adds, and what it says of its keys."""
    return attrs.evolve(
        words,
        keys={**words.keys, **added.keys},
        units={**words.units, **added.units},
        labels={**words.labels, **added.labels},
        apart=(*words.apart, *added.apart),
    )


def to_plain(read: Read) -> dict[str, Any]:
    """Return what was read as values that JSON holds."""
    words, files = read
    return {"words": attrs.asdict(words), "files": [attrs.asdict(file) for file in files]}


def from_plain(plain: Any) -> Read:
    """Return what was kept. Raises TypeError, ValueError, LookupError or AttributeError for anything else."""
    kept = _freeze(plain)
    return _make_words(Vocabulary, kept["words"]), tuple(map(_make_file, kept["files"]))


def _freeze(value: Any) -> Any:
    """Return a value with every list a tuple, as the model has them."""
    if isinstance(value, list):
        return tuple(map(_freeze, value))
    return {name: _freeze(one) for name, one in value.items()} if isinstance(value, dict) else value


def _make_words(kind: Any, plain: dict[str, Any]) -> Any:
    return kind(**{**plain, "units": {name: UnitMeaning(**meaning) for name, meaning in plain["units"].items()}})


def _make_file(plain: dict[str, Any]) -> ReadFile:
    return ReadFile(
        plain["path"],
        tuple(map(_make_entry, plain["entries"])),
        tuple(map(_make_default, plain["defaults"])),
        _make_words(AddedWords, plain["words"]),
        plain["problems"],
    )


def _make_entry(plain: dict[str, Any]) -> Entry:
    caveats = tuple(one if isinstance(one, str) else TargetCaveat(**one) for one in plain["caveats"])
    chain = tuple(map(_make_backend, plain["chain"]))
    return Entry(**{**plain, "chain": chain, "caveats": caveats, "default": Default(**plain["default"])})


def _make_backend(plain: dict[str, Any]) -> Backend:
    return Backend(**{**plain, "requires": tuple(Need(**need) for need in plain["requires"])})


def _make_default(plain: dict[str, Any]) -> FamilyDefault:
    bands = {band: tuple(map(_make_request, requests)) for band, requests in plain["bands"].items()}
    return FamilyDefault(**{**plain, "bands": bands})


def _make_request(plain: dict[str, Any]) -> Request:
    return Request(**{**plain, "emits": tuple(EmitSpec(**emit) for emit in plain["emits"])})
