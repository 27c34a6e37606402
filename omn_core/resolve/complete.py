"""A request as asked into one with nothing left open, or the reason it is wrong on every machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from omn_core.catalog.asked import check_emit, check_filter, check_keys, check_mode, choose_value
from omn_core.catalog.known import read_known
from omn_core.errors import NotCollected, RequestError
from omn_core.filter import Filter, compile_filter
from omn_core.model.catalog import Catalog, Entry, Vocabulary
from omn_core.model.request import POLLED_MODES, EmitSpec, Request
from omn_core.model.stacks import STACK_KEYS
from omn_core.model.target import Target
from omn_core.model.walks import Walk
from omn_core.nearest import find_nearest
from omn_core.plugins import PluginRecord, Registry

if TYPE_CHECKING:
    from omn_core.model.collector import BoundTarget

DEFAULT_INTERVAL_NS = 1_000_000_000
"""The interval of every polled source when none is asked: one second."""


@attrs.frozen(repr=False)
class Completed:
    """A request that is valid on any machine. `defaulted` says what was picked where the catalog left one option.

    Of the `vocabulary`, which unit the answer has is its backend's to say. `bound` is where the target stands
    on this machine, None before it was found and for a target that is no place. `walks` are the ways that its stacks
    may be walked, none where its events carry none.
    """

    request: Request
    entry: Entry
    mode: str
    emits: tuple[EmitSpec, ...]
    target: Target
    value: str
    vocabulary: Vocabulary
    adds_up: bool
    interval_ns: int | None
    filter: Filter | None
    defaulted: tuple[str, ...]
    walks: tuple[Walk, ...] = ()
    bound: BoundTarget | None = None


def find_entry(source: str, catalog: Catalog, registry: Registry) -> Entry:
    """Return a source's entry.

    Raises NotCollected naming what to install, or why what is installed did not load; RequestError with the nearest
    word.
    """
    entry = catalog.entries.get(source)
    if entry is not None:
        return entry
    if source in catalog.families():
        offered = ", ".join(entry.id for entry in catalog.entries.values() if entry.family == source)
        raise RequestError(f"{source!r} is a family", f"its sources are {offered}")
    known = read_known()
    family = source.partition(".")[0]
    distributions = known.find("sources", source)
    unloaded = _find_unloaded(distributions or (known.find_family(family),), registry)
    if unloaded is not None and (distributions or family not in catalog.families()):
        raise NotCollected(
            f"{source!r} belongs to {unloaded.distribution}, which is installed: "
            f"{unloaded.reason or 'its catalog is not among those that were read'}",
            "'omn plugins' shows what is loaded",
        )
    if distributions:
        raise NotCollected(_not_provided(source, distributions, catalog), _install(distributions))
    words = [*catalog.entries, *known.words("sources"), *catalog.families(), *registry.commands]
    near = find_nearest(source, words)
    hint = "'omn list' shows every source" if near is None else f"did you mean {near!r}?"
    distribution = known.find_family(family)
    if distribution is not None and family not in catalog.families():
        what = "" if family == source else f"no source {source!r}: "
        raise NotCollected(f"{what}the family {family!r} is not installed", _install((distribution,)))
    if "." not in source:
        raise RequestError(f"no source and no family is called {source!r}", hint)
    raise RequestError(f"no source is called {source!r}", hint)


def _find_unloaded(distributions: Iterable[str | None], registry: Registry) -> PluginRecord | None:
    """Return the record of an installed plugin of these distributions that gives no source."""
    return next((one for one in registry.records if one.distribution in distributions and not one.sources), None)


def _not_provided(source: str, distributions: tuple[str, ...], catalog: Catalog) -> str:
    if source.partition(".")[0] in catalog.families():
        return f"the source {source!r} is planned, and the installed {' and '.join(distributions)} has none of it yet"
    return f"the source {source!r} is not installed"


def _install(distributions: tuple[str, ...]) -> str:
    return f"install {' and '.join(distributions)} to have it"


def complete(request: Request, catalog: Catalog, registry: Registry) -> Completed:
    """Check a request against its entry and fill in what the catalog leaves one option for.

    Raises Refused: the request's for what no machine could serve, the build's for what is not installed.
    """
    entry = find_entry(request.source, catalog, registry)
    target, picked_target = _choose_target(request, entry)
    mode, picked_mode = _choose_mode(request, entry)
    emits, picked_emits = _choose_emits(request, entry, mode)
    _check_pair(entry, mode, target)
    value, adds_up = choose_value(request, entry, mode, catalog.vocabulary.units)
    for emit in emits:
        check_emit(emit, entry, mode, registry.emits, value if not adds_up else None)
    check_keys(request, entry)
    _check_sampling(request, entry, mode, emits)
    walks = () if entry.stacks is None else _list_walks(request, catalog)
    predicate = None if request.filter is None else check_filter(compile_filter(request.filter), entry, value)
    return Completed(
        request=request,
        entry=entry,
        mode=mode,
        emits=emits,
        target=target,
        value=value,
        vocabulary=catalog.vocabulary,
        adds_up=adds_up,
        interval_ns=_choose_interval(request, mode),
        filter=predicate,
        walks=walks,
        defaulted=tuple(picked for picked in (picked_target, picked_mode, picked_emits) if picked),
    )


def _choose_target(request: Request, entry: Entry) -> tuple[Target, str | None]:
    served = [kind for kind, reason in entry.targets.items() if reason is None]
    target = request.target
    if target is None:
        if served == ["system"]:
            return Target("system"), "the machine, the one target it serves"
        spelled = ", ".join("-- PROGRAM" if kind == "launch" else f"--{kind}" for kind in served)
        raise RequestError(f"{entry.id} serves several targets and none was named", f"name one of {spelled}")
    kind = "cgroup" if target.kind == "container" and "container" not in entry.targets else target.kind
    if kind in served:
        return target, None
    reason = entry.targets.get(kind) or f"it serves {', '.join(served)}"
    raise RequestError(f"{entry.id} does not serve {_speak(target)}: {reason}", _respell(entry, target, served))


def _speak(target: Target) -> str:
    return "a launched program" if target.kind == "launch" else f"the target {target}"


def _respell(entry: Entry, target: Target, served: list[str]) -> str | None:
    if target.kind == "launch" and "system" in served:
        return f"the machine while the program runs is 'omn {entry.id} --system -- {shlex.join(target.value)}'"
    return None


def _choose_mode(request: Request, entry: Entry) -> tuple[str, str | None]:
    if request.mode is not None:
        check_mode(request.mode, entry)
        return request.mode, None
    if len(entry.modes) == 1:
        return entry.modes[0], f"mode {entry.modes[0]}, the one it has"
    if entry.default.mode is not None:
        return entry.default.mode, f"mode {entry.default.mode}, its default"
    raise RequestError(f"{entry.id} has several modes ({', '.join(entry.modes)})", "choose one with --mode")


def _choose_emits(request: Request, entry: Entry, mode: str) -> tuple[tuple[EmitSpec, ...], str | None]:
    offered = entry.emits[mode]
    if request.emits:
        return tuple(dict.fromkeys(request.emits)), None
    if len(offered) == 1:
        return (EmitSpec(offered[0]),), f"emit {offered[0]}, the one of mode {mode}"
    default = entry.default.emits.get(mode)
    if default is not None:
        return (EmitSpec(default),), f"emit {default}, its default in mode {mode}"
    raise RequestError(f"{entry.id} has several emits in mode {mode} ({', '.join(offered)})", "choose with --emit")


def _check_pair(entry: Entry, mode: str, target: Target) -> None:
    """A mode and a target that no backend declares together are the request's, whatever the machine."""
    kind = "cgroup" if target.kind == "container" else target.kind
    if any(mode in entry.modes_of(backend) and kind in entry.targets_of(backend) for backend in entry.chain):
        return
    modes = {m for backend in entry.chain if kind in entry.targets_of(backend) for m in entry.modes_of(backend)}
    offered = ", ".join(m for m in entry.modes if m in modes)
    raise RequestError(
        f"no mechanism of {entry.id} serves mode {mode} on {_speak(target)}", f"on it the modes are {offered}"
    )


def _check_sampling(request: Request, entry: Entry, mode: str, emits: Iterable[EmitSpec]) -> None:
    for name, given in (("--hz", request.hz), ("--period", request.period)):
        if given is not None and mode != "sample":
            raise RequestError(f"{name} means something in mode sample alone, and this is mode {mode}")
        if given is not None and given <= 0:
            raise RequestError(f"{name} is a positive number, not {given}")
    if request.hz is not None and request.period is not None:
        raise RequestError("--hz and --period are two ways to say one thing", "give one of them")
    _check_stack_keys(request, emits)
    for name, word in (("--stack", request.stack), ("--symbols", request.symbols)):
        if word is not None and entry.stacks is None:
            raise RequestError(f"{name} means nothing here: the events of {entry.id} carry no stacks")


def _check_stack_keys(request: Request, emits: Iterable[EmitSpec]) -> None:
    """What is read from stacks is not there where they are not to be walked."""
    if request.stack != "none":
        return
    fields = () if request.filter is None else compile_filter(request.filter).fields
    asked = [*request.keys, *(emit.attribute or emit.name for emit in emits), *fields]
    lacking = next((name for name in asked if name in ("stack", *STACK_KEYS)), None)
    if lacking is not None:
        raise RequestError(f"{lacking!r} is read from stacks, and --stack none walks none", "leave out one of the two")


def _list_walks(request: Request, catalog: Catalog) -> tuple[Walk, ...]:
    """Return the ways that stacks may be walked. Raises RequestError for one that is asked and no catalog lists."""
    from omn_core.resolve.walks import check_walk_name

    walks = catalog.list_walks()
    if walks:
        check_walk_name(request.stack, walks)
    return walks


def _choose_interval(request: Request, mode: str) -> int | None:
    if mode in POLLED_MODES:
        return request.interval_ns or DEFAULT_INTERVAL_NS
    if request.interval_ns is not None:
        raise RequestError(f"--interval means something in mode poll alone, and this is mode {mode}")
    return None
