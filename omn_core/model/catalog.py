"""The catalog's shapes: what a source is, and the ordered chain of mechanisms that can serve it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from omn_core.model.family import FamilyDefault
from omn_core.model.probe import Need
from omn_core.model.walks import Walk

BANDS = ("free", "low", "med", "high", "extreme")
"""Cost bands, cheapest first: under 0.1 %, 1 %, 5 %, 20 %, and from 20 % of the larger of tool's and target's share."""

SCALES = ("bytes", "ns", "count", "ratio", "plain")
"""How text scales a unit: by 1024, as time, by 1000, as a percentage, or not at all."""

TEXT = "text"
"""The unit of an attribute that is a string."""


@attrs.frozen(repr=False)
class Backend:
    """One mechanism of a chain. None, and empty modes, emits and targets, mean that the entry's own apply.

    Empty `keys` or `filter_fields` say that its events carry none of the entry's.
    `requires` must all be available. `cost` is the worst regime's band, `cost_by_regime` the others'. After the first
    of a chain, either `degrades` says what is lost or `equivalent` that nothing is. `uncollected` says why nobody
    collects it yet, `unseen` on what alone its reader was tested when no machine here has the hardware.
    """

    id: str
    requires: tuple[Need, ...]
    cost: str
    cost_by_regime: Mapping[str, str] = attrs.field(factory=dict)
    degrades: str | None = None
    equivalent: bool = False
    modes: tuple[str, ...] = ()
    emits: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None
    filter_fields: tuple[str, ...] | None = None
    filter_in_program: tuple[str, ...] = ()
    unit: str | None = None
    uncollected: str | None = None
    unseen: str | None = None


@attrs.frozen(repr=False)
class Default:
    """The one option an entry leaves when a flag is absent: its mode, and the emit of each mode."""

    mode: str | None = None
    emits: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen(repr=False)
class TargetCaveat:
    """A caveat that concerns some kinds of target alone: what it says, and of which."""

    text: str
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.text} (target {', '.join(self.targets)})"

    def to_plain(self) -> dict[str, object]:
        """Return it as a catalog spells it."""
        return {"for": list(self.targets), "text": self.text}


@attrs.frozen(repr=False)
class Entry:
    """One source.

    `attributes` maps every attribute its events can carry to a unit (`text` for strings); `value` names the one that
    is the measurement. `emits` maps each mode to the emits that answer it. `targets` maps each kind of target to None
    where it is served and to the reason where it is not; a kind that is absent is not served. `caveats` says what is
    true of the number however it is read, as a plain text where that holds for every kind of target.
    """

    id: str
    title: str
    unit: str
    value: str
    modes: tuple[str, ...]
    emits: Mapping[str, tuple[str, ...]]
    targets: Mapping[str, str | None]
    attributes: Mapping[str, str]
    keys: tuple[str, ...]
    filter_fields: tuple[str, ...]
    determinism: str
    chain: tuple[Backend, ...]
    default: Default = Default()
    caveats: tuple[str | TargetCaveat, ...] = ()
    stacks: str | None = None
    overflow: str | None = None
    path: str = ""
    line: int = 0

    @property
    def family(self) -> str:
        """The family: what stands before the first dot of the id."""
        return self.id.partition(".")[0]

    def adds_up(self, mode: str) -> bool:
        """Whether values of events of this mode add up to a total: the entry declares rate, topk or stack for it."""
        return any(emit in ("rate", "topk", "stack") for emit in self.emits.get(mode, ()))

    def caveats_of(self, target: str) -> tuple[str, ...]:
        """The caveats that a reader of an answer about a kind of target needs."""
        return tuple(
            caveat if isinstance(caveat, str) else caveat.text
            for caveat in self.caveats
            if isinstance(caveat, str) or target in caveat.targets
        )

    def backend(self, identifier: str) -> Backend | None:
        """Return the backend of that id, None where the chain has none."""
        return next((backend for backend in self.chain if backend.id == identifier), None)

    def modes_of(self, backend: Backend) -> tuple[str, ...]:
        """The modes a backend serves."""
        return backend.modes or self.modes

    def emits_of(self, backend: Backend, mode: str) -> tuple[str, ...]:
        """The emits a backend produces in a mode."""
        declared = self.emits.get(mode, ())
        return tuple(emit for emit in declared if emit in backend.emits) if backend.emits else declared

    def targets_of(self, backend: Backend) -> tuple[str, ...]:
        """The kinds of target a backend serves."""
        served = tuple(kind for kind, reason in self.targets.items() if reason is None)
        return tuple(kind for kind in served if kind in backend.targets) if backend.targets else served

    def keys_of(self, backend: Backend) -> tuple[str, ...]:
        """The keys a backend's events carry."""
        return self.keys if backend.keys is None else backend.keys

    def filter_fields_of(self, backend: Backend) -> tuple[str, ...]:
        """The fields a filter may name on a backend, `value` and `kind` apart."""
        return self.filter_fields if backend.filter_fields is None else backend.filter_fields

    def unit_of(self, backend: Backend, attribute: str) -> str:
        """The unit of an attribute as a backend reports it."""
        if attribute == self.value and backend.unit is not None:
            return backend.unit
        return self.attributes.get(attribute, self.unit)


@attrs.frozen(repr=False)
class Vocabulary:
    """The words every catalog shares, and what each means.

    Units map to `UnitMeaning`, labels a key to the attribute that says what it is called; `apart` are the keys whose
    values count different things; the rest map a word to its one-line meaning.
    """

    keys: Mapping[str, str]
    units: Mapping[str, UnitMeaning]
    determinism: Mapping[str, str]
    regimes: Mapping[str, str]
    emits: Mapping[str, str]
    labels: Mapping[str, str] = attrs.field(factory=dict)
    apart: tuple[str, ...] = ()


@attrs.frozen(repr=False)
class UnitMeaning:
    """A unit: what it is, how text scales it (one of `SCALES`), if it is a level."""

    meaning: str
    scale: str
    level: bool = False


@attrs.frozen(repr=False)
class Catalog:
    """Every entry that was read, by id, the vocabulary they were checked against, and each family's default, by family.

    A family that declares nothing about its default has none in `defaults`. `list_walks` reads the ways to walk a
    stack, best first, which few requests need.
    """

    entries: Mapping[str, Entry]
    vocabulary: Vocabulary
    distributions: Mapping[str, str] = attrs.field(factory=dict)
    defaults: Mapping[str, FamilyDefault] = attrs.field(factory=dict)
    list_walks: Callable[[], tuple[Walk, ...]] = tuple

    def has(self, word: str) -> bool:
        """Tell whether a source or a family of that name is in it."""
        return word in self.entries or any(entry.family == word for entry in self.entries.values())

    def families(self) -> tuple[str, ...]:
        """Every family that has an entry, sorted."""
        return tuple(sorted({entry.family for entry in self.entries.values()}))
