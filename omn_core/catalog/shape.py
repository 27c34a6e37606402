"""The catalog as its files spell it, before and after it is checked; `omn_core.model.catalog` documents the fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NewType

import attrs
import cattrs

from omn_core.catalog.kept import AddedWords
from omn_core.catalog.requirement import parse_need
from omn_core.model.catalog import Backend, Default, Entry, TargetCaveat, UnitMeaning
from omn_core.model.family import DEFAULT_BANDS, FamilyDefault
from omn_core.model.probe import Need
from omn_core.model.request import Request, parse_emit
from omn_core.model.rows import RequirementRow
from omn_core.session.duration import parse_duration
from omn_core.structure import make_converter

Served = NewType("Served", object)
"""What a `targets:` line says: None where the kind is served, else the reason it is not."""


@attrs.frozen
class WrittenEntry:
    """One entry as written. `targets` says `yes` or `no: reason` for each kind."""

    id: str
    title: str
    unit: str
    value: str
    modes: tuple[str, ...]
    emits: dict[str, tuple[str, ...]]
    targets: dict[str, Served]
    attributes: dict[str, str]
    keys: tuple[str, ...]
    filter_fields: tuple[str, ...]
    determinism: str
    chain: tuple[WrittenBackend, ...]
    default: Default = attrs.field(factory=Default)
    caveats: tuple[str | TargetCaveat, ...] = ()
    stacks: str | None = None
    overflow: str | None = None


@attrs.frozen
class WrittenBackend:
    """One backend as written. A subset that is absent is None; one that is written empty is refused by the checks."""

    id: str
    requires: tuple[Need, ...]
    cost: str
    cost_by_regime: dict[str, str] = attrs.field(factory=dict)
    degrades: str | None = None
    equivalent: bool = False
    modes: tuple[str, ...] | None = None
    emits: tuple[str, ...] | None = None
    targets: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    filter_fields: tuple[str, ...] | None = None
    filter_in_program: tuple[str, ...] = ()
    unit: str | None = None
    uncollected: str | None = None
    unseen: str | None = None


@attrs.frozen
class WrittenVocabulary:
    """The words a file adds to the shared ones, or the shared ones themselves."""

    keys: dict[str, str] = attrs.field(factory=dict)
    units: dict[str, UnitMeaning] = attrs.field(factory=dict)
    determinism: dict[str, str] = attrs.field(factory=dict)
    regimes: dict[str, str] = attrs.field(factory=dict)
    emits: dict[str, str] = attrs.field(factory=dict)
    labels: dict[str, str] = attrs.field(factory=dict)
    apart: tuple[str, ...] = ()


@attrs.frozen
class WrittenRequest:
    """One request of a family's default, in the words of a session file. It names no target: it takes the person's."""

    source: str
    mode: str
    emits: tuple[str, ...]
    keys: tuple[str, ...] = ()
    interval: str | None = None
    value: str | None = None
    filter: str | None = None


@attrs.frozen
class WrittenDefault:
    """What a family's name alone asks. A band that is absent is None; one that is written empty is refused."""

    default: str
    low: tuple[WrittenRequest, ...] | None = None
    med: tuple[WrittenRequest, ...] | None = None
    high: tuple[WrittenRequest, ...] | None = None
    none: str | None = None

    @property
    def bands(self) -> dict[str, tuple[WrittenRequest, ...]]:
        """The bands that are written, cheapest first."""
        written = {band: getattr(self, band) for band in DEFAULT_BANDS}
        return {band: requests for band, requests in written.items() if requests is not None}


@attrs.frozen
class WrittenFile:
    """A catalog file: its entries with at most one default among them, and words of the family's own."""

    sources: tuple[WrittenEntry | WrittenDefault, ...]
    vocabulary: WrittenVocabulary = attrs.field(factory=WrittenVocabulary)


def make_catalog_converter(classes: Mapping[str, RequirementRow]) -> cattrs.Converter:
    """Return a converter that reads needs and target lines, strictly; it writes them back as it reads them."""
    converter = make_converter()
    converter.register_structure_hook(Need, lambda text, _: parse_need(_text(text), classes))
    converter.register_unstructure_hook(Need, lambda need: need.text)
    converter.register_structure_hook_func(lambda kind: kind is Served, lambda value, _: _served(value))
    converter.register_unstructure_hook_func(
        lambda kind: kind is Served, lambda reason: "yes" if reason is None else f"no: {reason}"
    )
    converter.register_structure_hook_func(lambda kind: kind == str | TargetCaveat, lambda value, _: _caveat(value))
    converter.register_unstructure_hook(TargetCaveat, TargetCaveat.to_plain)
    converter.register_structure_hook_func(
        lambda kind: kind == WrittenEntry | WrittenDefault,
        lambda value, _: converter.structure(value, WrittenDefault if _is_default(value) else WrittenEntry),
    )
    return converter


def _is_default(value: Any) -> bool:
    """Tell an item `default: FAMILY` from an entry, whose `default` is a field beside its id."""
    return isinstance(value, Mapping) and "default" in value and "id" not in value


def _caveat(value: Any) -> str | TargetCaveat:
    """Read a text, or `{for: [kinds of target], text: ...}`."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or value.keys() != {"for", "text"}:
        raise TypeError("a caveat is a text, or a mapping with 'for' (kinds of target) and 'text'")
    kinds, text = value["for"], value["text"]
    if not isinstance(text, str) or not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise TypeError("a caveat's 'for' is a list of kinds of target, and its 'text' a text")
    return TargetCaveat(text, tuple(kinds))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a requirement is a text, not {value!r}")
    return value


def _served(value: Any) -> str | None:
    """Read `yes` or `no: reason`; YAML 1.2 leaves both words as text, and a bare `no` states no reason."""
    if value is True or value == "yes":
        return None
    if isinstance(value, str) and value.startswith("no:") and value[3:].strip():
        return value[3:].strip()
    if value is False or value in ("no", "no:"):
        raise ValueError("a kind that is not served says why ('no: reason'); leave it out to say nothing")
    raise ValueError(f"a kind of target is 'yes' or 'no: reason', not {value!r}")


def make_entry(written: WrittenEntry, path: str, line: int) -> Entry:
    """Make the model's entry of a written one that the checks passed."""
    plain = {
        field.name: getattr(written, field.name)
        for field in attrs.fields(WrittenEntry)
        if field.name not in ("chain", "targets")
    }
    targets: Mapping[str, Any] = written.targets
    return Entry(**plain, targets=targets, chain=tuple(map(make_backend, written.chain)), path=path, line=line)


def make_backend(written: WrittenBackend) -> Backend:
    """Make the model's backend, in which modes, emits and targets that nobody wrote are empty."""
    plain: dict[str, Any] = {field.name: getattr(written, field.name) for field in attrs.fields(WrittenBackend)}
    for name in ("modes", "emits", "targets"):
        plain[name] = plain[name] or ()
    return Backend(**plain)


def make_default(written: WrittenDefault, path: str, line: int) -> FamilyDefault:
    """Make the model's default of a written one that the checks passed."""
    bands = {band: tuple(map(make_request, requests)) for band, requests in written.bands.items()}
    return FamilyDefault(written.default, bands, written.none, path, line)


def make_request(written: WrittenRequest) -> Request:
    """Make a request without a target. Raises RequestError for an unreadable emit, ValueError for an interval."""
    return Request(
        source=written.source,
        mode=written.mode,
        emits=tuple(map(parse_emit, written.emits)),
        keys=written.keys,
        filter=written.filter,
        value=written.value,
        interval_ns=None if written.interval is None else parse_duration(written.interval),
    )


def make_added_words(written: WrittenVocabulary) -> AddedWords:
    """Make of a file's words those that are added to the shared ones."""
    return AddedWords(written.keys, written.units, written.labels, written.apart)
