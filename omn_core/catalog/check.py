"""The rules that a catalog's entries keep. Each check yields what is wrong, with the path it stands at."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from omn_core.catalog.shape import WrittenBackend, WrittenEntry, WrittenVocabulary
from omn_core.located import Path
from omn_core.model.catalog import BANDS, SCALES, TEXT, Vocabulary
from omn_core.model.request import MODES
from omn_core.model.stacks import STACK_KEYS, WITHIN
from omn_core.model.target import KINDS
from omn_core.model.walks import Walk

Complaint = tuple[Path, str]
"""A path inside the entry and one lowercase reason."""

_ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_SUBSETS = ("modes", "emits", "targets", "keys", "filter_fields")


def check_vocabulary(added: WrittenVocabulary, family: str) -> Iterator[Complaint]:
    """A family adds keys and units of its own, under its own name, and labels of those keys; no other kind of word."""
    for group in ("keys", "units"):
        for word in getattr(added, group):
            if not word.startswith(f"{family}."):
                yield (group, word), f"a family's own word starts with its name: {family}.{word}"
    for word, meaning in added.units.items():
        yield from iter_unknown(("units", word), "scale", [meaning.scale], SCALES)
    for group, words in (("labels", [*added.labels]), ("apart", [*added.apart])):
        for word in words:
            if word not in added.keys:
                yield (group,), f"{group} are of keys of the family's own vocabulary, and {word!r} is none of them"
    for group in ("determinism", "regimes", "emits"):
        for word in getattr(added, group):
            yield (group, word), f"{group} are the core's to name"


def check_entry(
    entry: WrittenEntry, family: str | None, words: Vocabulary, emits: Iterable[str]
) -> Iterator[Complaint]:
    """Yield everything wrong with one entry. `family` is the plugin's name, None for a folder of several."""
    if not _ID.fullmatch(entry.id):
        yield ("id",), f"{entry.id!r} is not family.name in lower case"
    elif family is not None and entry.id.partition(".")[0] != family:
        yield ("id",), f"{entry.id!r} is outside this plugin's family {family!r}"
    yield from _check_words(entry, words, set(emits))
    yield from _check_fields(entry)
    yield from _check_stack_keys(entry)
    yield from _check_caveats(entry)
    yield from _check_default(entry)
    yield from _check_chain(entry, words)


def iter_unknown(path: Path, noun: str, given: Iterable[str], known: Iterable[str]) -> Iterator[Complaint]:
    """Yield a complaint for each given word that is not among the known ones, with the nearest of them."""
    known = list(known)
    for word in given:
        if word not in known:
            near = difflib.get_close_matches(word, known, 1)
            yield path, f"{noun} {word!r} is unknown" + (f"; did you mean {near[0]!r}?" if near else "")


def _check_words(entry: WrittenEntry, words: Vocabulary, emits: set[str]) -> Iterator[Complaint]:
    yield from iter_unknown(("modes",), "mode", entry.modes, MODES)
    yield from iter_unknown(("keys",), "key", entry.keys, words.keys)
    yield from iter_unknown(("unit",), "unit", [entry.unit], words.units)
    yield from iter_unknown(("determinism",), "determinism", [entry.determinism], words.determinism)
    yield from iter_unknown(("targets",), "target kind", entry.targets, KINDS)
    for attribute, unit in entry.attributes.items():
        yield from iter_unknown(("attributes", attribute), "unit", [unit], words.units)
    for mode, listed in entry.emits.items():
        yield from iter_unknown(("emits",), "mode", [mode], entry.modes)
        yield from iter_unknown(("emits", mode), "emit", listed, emits)
    for mode in entry.modes:
        if not entry.emits.get(mode):
            yield ("emits",), f"mode {mode!r} has no emit"
    if not entry.modes:
        yield ("modes",), "an entry serves at least one mode"


def _check_fields(entry: WrittenEntry) -> Iterator[Complaint]:
    if entry.value not in entry.attributes:
        yield ("value",), f"the value {entry.value!r} is none of the attributes"
    elif entry.attributes[entry.value] != entry.unit:
        yield ("value",), f"the value's unit is {entry.attributes[entry.value]!r}, and the entry's {entry.unit!r}"
    elif entry.unit == TEXT:
        yield ("unit",), "a measurement is a number"
    carried = [*entry.attributes, *entry.keys]
    yield from iter_unknown(("filter_fields",), "field", entry.filter_fields, carried)
    served = [kind for kind, reason in entry.targets.items() if reason is None]
    if not served:
        yield ("targets",), "an entry serves at least one kind of target"
    if "cgroup" in served and entry.targets.get("container", None) is not None:
        yield ("targets", "container"), "a container is its cgroup, which is served"


def _check_stack_keys(entry: WrittenEntry) -> Iterator[Complaint]:
    for name in STACK_KEYS:
        if name in entry.keys and name not in entry.attributes and entry.stacks is None:
            yield ("keys",), f"{name!r} is read from stacks, and the entry does not say whose its events carry (stacks)"
        if name in entry.keys and name not in entry.filter_fields and name != WITHIN:
            yield ("filter_fields",), f"{name!r} divides the answer, and no filter or topk may name it"


def _check_caveats(entry: WrittenEntry) -> Iterator[Complaint]:
    served = [kind for kind, reason in entry.targets.items() if reason is None]
    for index, caveat in enumerate(entry.caveats):
        if isinstance(caveat, str):
            continue
        path: Path = ("caveats", index)
        yield from iter_unknown(path, "target kind", caveat.targets, KINDS)
        for kind in caveat.targets:
            if kind in KINDS and kind not in served:
                yield path, f"the target kind {kind!r} is not served, so nobody would read this caveat"
        if not caveat.targets:
            yield path, "a caveat that is for no kind of target is read by nobody"
        if served and set(caveat.targets) == set(served):
            yield path, "it is for every kind of target that is served: write its text alone"


def _check_default(entry: WrittenEntry) -> Iterator[Complaint]:
    if entry.default.mode is not None:
        yield from iter_unknown(("default", "mode"), "mode", [entry.default.mode], entry.modes)
    for mode, emit in entry.default.emits.items():
        yield from iter_unknown(("default", "emits"), "mode", [mode], entry.modes)
        yield from iter_unknown(("default", "emits", mode), "emit", [emit], entry.emits.get(mode, ()))


def _check_chain(entry: WrittenEntry, words: Vocabulary) -> Iterator[Complaint]:
    if not entry.chain:
        yield ("chain",), "a chain has at least one backend"
    seen: set[str] = set()
    for index, backend in enumerate(entry.chain):
        path: Path = ("chain", index)
        if backend.id in seen:
            yield (*path, "id"), f"backend {backend.id!r} is in the chain twice"
        seen.add(backend.id)
        for inner, reason in _check_backend(entry, backend, index, words):
            yield (*path, *inner), f"{backend.id}: {reason}"
    for mode in entry.modes:
        if entry.chain and not any(mode in (entry.modes if b.modes is None else b.modes) for b in entry.chain):
            yield ("chain",), f"no backend serves the mode {mode!r}"


def _check_backend(entry: WrittenEntry, backend: WrittenBackend, index: int, words: Vocabulary) -> Iterator[Complaint]:
    yield from _check_subsets(entry, backend)
    yield from _check_cost(backend, words)
    yield from check_rank(backend, index)
    if backend.unit is not None:
        yield from iter_unknown(("unit",), "unit", [backend.unit], words.units)
        if index == 0 or backend.equivalent:
            yield ("unit",), "a unit of its own stands only on a fallback that says what it degrades"
    if backend.equivalent:
        yield from _check_equivalent(entry, backend, index)


def check_rank(link: WrittenBackend | Walk, index: int) -> Iterator[Complaint]:
    """Yield what is wrong with how a link of a chain stands to the others, whatever it is a chain of."""
    if not link.requires:
        yield ("requires",), "it requires nothing; what needs nothing says tool-free"
    if index == 0 and (link.degrades or link.equivalent):
        yield ("degrades",), "the first of a chain is what the others are compared with"
    if index > 0 and bool(link.degrades) == link.equivalent:
        yield ("degrades",), "after the first, a backend says what it degrades or that it is equivalent, one of the two"


def _check_subsets(entry: WrittenEntry, backend: WrittenBackend) -> Iterator[Complaint]:
    whole: Mapping[str, Iterable[str]] = {
        "modes": entry.modes,
        "emits": [emit for emits in entry.emits.values() for emit in emits],
        "targets": [kind for kind, reason in entry.targets.items() if reason is None],
        "keys": entry.keys,
        "filter_fields": entry.filter_fields,
    }
    for name in _SUBSETS:
        part = getattr(backend, name)
        if part is None:
            continue
        if not part and name in ("modes", "emits", "targets"):
            yield (name,), f"its {name} are written empty; leave the field out to serve all of the entry's"
        for word in part:
            if word not in whole[name]:
                yield (name,), f"{word!r} is none of the entry's {name}"
    fields = entry.filter_fields if backend.filter_fields is None else backend.filter_fields
    for word in backend.filter_in_program:
        if word not in fields:
            yield ("filter_in_program",), f"{word!r} is none of its filter fields"


def _check_cost(backend: WrittenBackend, words: Vocabulary) -> Iterator[Complaint]:
    yield from iter_unknown(("cost",), "cost band", [backend.cost], BANDS)
    yield from iter_unknown(("cost_by_regime",), "regime", backend.cost_by_regime, words.regimes)
    for regime, band in backend.cost_by_regime.items():
        yield from iter_unknown(("cost_by_regime", regime), "cost band", [band], BANDS)
        if band in BANDS and backend.cost in BANDS and BANDS.index(band) > BANDS.index(backend.cost):
            yield ("cost_by_regime", regime), f"{band} is dearer than the worst regime's {backend.cost}"


def _check_equivalent(entry: WrittenEntry, backend: WrittenBackend, index: int) -> Iterator[Complaint]:
    def served(one: WrittenBackend) -> set[str]:
        return {kind for kind, reason in entry.targets.items() if reason is None} & set(
            entry.targets if one.targets is None else one.targets
        )

    for earlier in entry.chain[:index]:
        if backend.cost not in BANDS or earlier.cost not in BANDS or not served(earlier) & served(backend):
            continue
        if BANDS.index(backend.cost) < BANDS.index(earlier.cost):
            yield ("cost",), f"it is equivalent to {earlier.id} and declared cheaper ({backend.cost} < {earlier.cost})"
