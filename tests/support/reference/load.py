"""Reading reference pairs, every mistake named by its file and line."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import cattrs

from omn_core.errors import CatalogError
from omn_core.located import Located, LocatedError, parse_yaml
from omn_core.model.target import KINDS
from omn_core.session.shape import make_session
from omn_core.structure import make_converter, structure
from reference.model import Pair, When, fill
from reference.parsing import Figures
from reference.stages import STAGES
from reference.workloads import find_maker

FOLDER = Path(__file__).parents[3] / "catalog" / "references"
"""The pairs of the families that ship with omn."""


@attrs.frozen
class Without:
    """A use of a tool that is held to nothing, and why."""

    title: str
    use: str
    reason: str


@attrs.frozen
class WrittenFile:
    """One file: its family's pairs, and the uses of tools that no pair holds, each with the reason."""

    pairs: tuple[Pair, ...]
    without: tuple[Without, ...] = ()


@attrs.frozen
class Family:
    """A family's file, read and checked."""

    name: str
    path: Path
    pairs: tuple[Pair, ...]
    without: tuple[Without, ...]


def load_families(folder: Path = FOLDER) -> tuple[Family, ...]:
    """Return every family's pairs, in the order of the files' names.

    Raises CatalogError with file and line for a file that does not read, for a pair under another family's name and
    for an id that is there twice.
    """
    families: list[Family] = []
    places: dict[str, str] = {}
    for path in sorted(folder.glob("*.yaml")):
        located, written = _read_file(path)
        for index, pair in enumerate(written.pairs):
            line = located.line(("pairs", index, "id"))
            _check_pair(pair, path, located, index)
            if pair.id in places:
                raise CatalogError(str(path), line, f"the id {pair.id!r} is in {places[pair.id]} already")
            places[pair.id] = f"{path.name}:{line}"
        families.append(Family(path.stem, path, written.pairs, written.without))
    return tuple(families)


def load_pairs(folder: Path = FOLDER) -> tuple[Pair, ...]:
    """Return the pairs of every family's file. Raises as `load_families`."""
    return tuple(pair for family in load_families(folder) for pair in family.pairs)


def load_parser(reference: str) -> Callable[[Any], Figures]:
    """Return the function that `module:function` names. Raises LookupError where there is none."""
    module, _, name = reference.partition(":")
    try:
        found: Callable[[Any], Figures] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"there is no parser {reference}: {error}") from error
    return found


def _read_file(path: Path) -> tuple[Located, WrittenFile]:
    try:
        located = parse_yaml(path.read_text(encoding="utf-8"))
        return located, structure(_make_pair_converter(), located, WrittenFile)
    except LocatedError as error:
        raise CatalogError(str(path), error.line, error.reason) from error


def _make_pair_converter() -> cattrs.Converter:
    converter = make_converter()
    converter.register_structure_hook(When, lambda value, _: _when(value))
    # What a workload or a stage is told is plain values of any kind; the function that takes them checks them.
    converter.register_structure_hook_func(lambda kind: kind is Any, lambda value, _: value)
    return converter


def _when(value: object) -> When:
    words = [one.value for one in When]
    if value not in words:
        raise ValueError(f"{value!r} is no time for a tool to run; the words are {', '.join(words)}")
    return When(value)


def _check_pair(pair: Pair, path: Path, located: Located, index: int) -> None:
    for inner, reason in _iter_problems(pair, path.stem):
        raise CatalogError(str(path), located.line(("pairs", index, *inner)), reason, pair.id)


def _iter_problems(pair: Pair, family: str) -> Iterator[tuple[tuple[str, ...], str]]:
    if pair.family != family:
        yield ("source",), f"{pair.source} belongs to the file of its own family, {pair.family}.yaml"
    if pair.asked.target not in KINDS or pair.asked.target == "launch":
        kinds = ", ".join(kind for kind in KINDS if kind != "launch")
        yield ("asked", "target"), f"the window is the runner's; a target is one of {kinds}"
    else:
        try:
            make_session(Located(make_plain_session(pair, {}, ["true"]), {}))
        except LocatedError as error:
            yield ("asked",), error.reason
    for place, reference in (("tool", pair.tool.parser), ("omn", pair.omn.parser)):
        try:
            if reference is not None:
                load_parser(reference)
        except LookupError as error:
            yield (place, "parser"), str(error)
    if pair.asked.target in ("dev", "cgroup", "iface") and pair.stage is None:
        yield ("asked",), f"target {pair.asked.target} is the stage's, and there is no stage"
    yield from _iter_made(pair)
    for need in pair.requires:
        if need != "root" and not need.startswith(("/", "program:")):
            yield ("requires",), f"a requirement is a path, program:NAME or root, not {need!r}"


def _iter_made(pair: Pair) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with the workload's and the stage's names and arguments."""
    if pair.workload is not None:
        maker = find_maker(pair.workload.name)
        if maker is None:
            yield ("workload",), f"there is no workload {pair.workload.name!r}"
        else:
            yield from ((("workload",), text) for text in _iter_misfits(maker, pair.workload.arguments))
    if pair.stage is not None:
        stage = STAGES.get(pair.stage.name)
        if stage is None:
            yield ("stage",), f"there is no stage {pair.stage.name!r}; the stages are {', '.join(STAGES)}"
        else:
            yield from ((("stage",), text) for text in _iter_misfits(stage, {"folder": ".", **pair.stage.arguments}))


def _iter_misfits(made_by: Callable[..., Any], arguments: Mapping[str, Any]) -> Iterator[str]:
    try:
        inspect.signature(made_by).bind(**arguments)
    except TypeError as error:
        yield f"{made_by.__name__}: {error}"


_STAND_INS: Mapping[str, Any] = {
    "pid": [1], "tid": 1, "cpu": [0], "system": True, "cgroup": "/a", "container": "a", "dev": "/dev/a", "iface": "lo",
    "gpu": "0",
}  # fmt: skip
"""A value of each kind of target, to check a request by before there is anything to measure."""


def make_plain_session(
    pair: Pair, found: Mapping[str, Any], launch: Sequence[str], words: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the session that asks omn a pair's side, as its file spells it.

    `found` has the target's value by its kind, where the workload and the stage made one; `launch` is the program
    whose life is the window, `words` what a filter's names in braces stand for.
    """
    kind = pair.asked.target
    value = found.get(kind, _STAND_INS[kind])
    asked = attrs.asdict(pair.asked, filter=lambda field, given: field.name != "target" and given not in (None, ()))
    emit = asked.pop("emit")
    if words is not None and pair.asked.filter is not None:
        asked["filter"] = fill(pair.asked.filter, words)
    request = {"source": pair.source, "target": {kind: value}, "emits": [emit], **asked}
    return {"launch": list(launch), "requests": [request | {"keys": list(pair.asked.keys)}]}
