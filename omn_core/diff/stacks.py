"""Stacks of two sides, function by function: what ran in each itself, and what ran in it with all that it called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from omn_core.diff.answers import Asked, count_samples, get_seconds, get_walk
from omn_core.diff.code import NO_STACK, RECOVERED, Code, FrameKey, Identifier, Lack
from omn_core.diff.model import Apart, Figure, Row, Table
from omn_core.diff.rows import compare_rows
from omn_core.diff.sides import Plain

_EXAMPLES = 5
_WHOLE = Code("", "")


@attrs.define
class _Sum:
    weight: float = 0.0
    count: float = 0.0


@attrs.frozen(eq=False)
class _Stack:
    frames: tuple[FrameKey, ...]
    weight: float
    count: float


@attrs.frozen(eq=False)
class _Profile:
    """The stacks of one run: every figure is to be multiplied by `scale`, counts to be made events by `events`."""

    stacks: tuple[_Stack, ...]
    scale: float
    events: float
    is_bound: bool


def compare_stacks(asked: Asked, emit: str) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Compare the stacks of a request. Returns the tables, and facts on what was taken for the same code."""
    is_per_second = asked.is_per_second
    recovered: set[FrameKey] = set()
    profiles = [[_read(one, emit, recovered, is_per_second) for one in side] for side in asked.sides]
    keys = [dict.fromkeys(key for run in side for stack in run.stacks for key in stack.frames) for side in profiles]
    kernels = {
        (run.document["environment"].get("kernel"), run.document["environment"].get("kernel_version"))
        for run in (*asked.runs_a, *asked.runs_b)
    }
    builds = [_read_builds(side, emit) for side in asked.sides]
    identifier = Identifier(keys[0], keys[1], (builds[0], builds[1]), has_one_kernel=len(kernels) == 1)
    marked = {
        code for of in identifier.codes for key, code in of.items() if key in recovered and isinstance(code, Code)
    }
    has_one_walk = len({get_walk(one) for side in asked.sides for one in side}) == 1
    tables = tuple(
        _tabulate(figure, profiles, identifier, marked, str(asked.first["unit"]), is_per_second=is_per_second)
        for figure in (("self", "inclusive") if has_one_walk else ("self",))
    )
    renamed = identifier.objects.renamed
    facts = [] if renamed is None else [f"{renamed[0]} in A is compared with {renamed[1]} in B, by their symbols"]
    if not has_one_walk:
        facts.append("callers were found in several ways, so that no inclusive figures are compared")
    return tables, tuple(facts)


def _read(result: Plain, emit: str, recovered: set[FrameKey], is_per_second: bool) -> _Profile:
    stacks: list[_Stack] = []
    is_bound = False
    known: dict[tuple[str, str | None, bool], FrameKey] = {}
    for series in result["series"]:
        answer = series["emits"][emit]
        is_bound = is_bound or bool(answer["lower_bound"])
        for row in answer["rows"]:
            parts = zip(row["frames"], row["objects"], row["named_by"], strict=True)
            frames = tuple(_find_key(*part, known, recovered) for part in parts)
            stacks.append(_Stack(frames, float(row["weight"] or 0), float(row["count"] or 0)))
    counted = sum(stack.count for stack in stacks)
    scale = 1 / get_seconds(result) if is_per_second else 1.0
    return _Profile(tuple(stacks), scale, count_samples(result) / counted if counted else 1.0, is_bound)


def _find_key(
    label: str,
    holder: str | None,
    named_by: str | None,
    known: dict[tuple[str, str | None, bool], FrameKey],
    recovered: set[FrameKey],
) -> FrameKey:
    part = label, holder, named_by is not None
    key = known.get(part)
    if key is None:
        key = known[part] = FrameKey(label.removesuffix(RECOVERED), holder, part[2])
        if label.endswith(RECOVERED):
            recovered.add(key)
    return key


def _read_builds(side: Sequence[Plain], emit: str) -> Mapping[str, frozenset[str]]:
    builds: dict[str, set[str]] = {}
    for result in side:
        for series in result["series"]:
            for path, found in series["emits"][emit].get("builds", {}).items():
                builds.setdefault(path, set()).update(found)
    return {path: frozenset(found) for path, found in builds.items()}


def _tabulate(
    figure: str,
    profiles: Sequence[Sequence[_Profile]],
    identifier: Identifier,
    marked: set[Code],
    unit: str,
    *,
    is_per_second: bool,
) -> Table:
    sums = [
        [_sum(run, identifier.codes[side], is_inclusive=figure == "inclusive") for run in runs]
        for side, runs in enumerate(profiles)
    ]
    codes = dict.fromkeys(code for side in sums for run in side for code in run if isinstance(code, Code))
    codes.pop(_WHOLE, None)
    lacks = dict.fromkeys(code for side in sums for run in side for code in run if isinstance(code, Lack))

    def make_row(code: Code) -> Row:
        a, b = (_make_figure([run.get(code) for run in sums[side]], sums[side], profiles[side]) for side in (0, 1))
        name = {} if code is _WHOLE else {"function": code.name, "object": code.place or None}
        return Row(name, a, b, b.mean - a.mean, is_recovered=code in marked)

    rows = [make_row(_WHOLE)] if figure == "self" else []
    rows += [make_row(code) for code in codes]
    confidence, compared = compare_rows(rows)
    apart = tuple(_set_apart(lack, sums, profiles, identifier, is_inclusive=figure == "inclusive") for lack in lacks)
    return Table(figure, unit, confidence, compared, is_per_second, apart)


def _sum(run: _Profile, codes: Mapping[FrameKey, Code | Lack], *, is_inclusive: bool) -> dict[Code | Lack, _Sum]:
    sums: dict[Code | Lack, _Sum] = {_WHOLE: _Sum()}
    for stack in run.stacks:
        for code in (_WHOLE, *_iter_codes(stack, codes, is_inclusive=is_inclusive)):
            one = sums.setdefault(code, _Sum())
            one.weight += stack.weight * run.scale
            one.count += stack.count * run.events
    return sums


def _iter_codes(stack: _Stack, codes: Mapping[FrameKey, Code | Lack], *, is_inclusive: bool) -> Iterator[Code | Lack]:
    """Yield what a stack's weight belongs to, each once however often it is called."""
    if not stack.frames:
        yield NO_STACK
    elif is_inclusive:
        yield from dict.fromkeys(codes[key] for key in stack.frames)
    else:
        yield codes[stack.frames[0]]


def _make_figure(
    found: Sequence[_Sum | None], sums: Sequence[Mapping[Any, _Sum]], profiles: Sequence[_Profile]
) -> Figure:
    nothing = _Sum()
    held = [one or nothing for one in found]
    wholes = [run[_WHOLE] for run in sums]
    events = sum(whole.count for whole in wholes)
    total = sum(whole.weight for whole in wholes)
    return Figure(
        values=tuple(one.weight for one in held),
        noises=tuple(one.weight**2 / one.count if one.count else 0.0 for one in held),
        step=total / events if events else 0.0,
        events=sum(one.count for one in held) / len(held),
        share=sum(one.weight for one in held) / total if total else None,
        is_bound=any(run.is_bound for run in profiles),
    )


def _set_apart(
    lack: Lack,
    sums: Sequence[Sequence[Mapping[Any, _Sum]]],
    profiles: Sequence[Sequence[_Profile]],
    identifier: Identifier,
    *,
    is_inclusive: bool,
) -> Apart:
    figures = [_make_figure([run.get(lack) for run in side], side, profiles[place]) for place, side in enumerate(sums)]
    labels: dict[str, list[float]] = {}
    for side, runs in enumerate(profiles):
        for run in runs:
            for stack in run.stacks:
                frames = stack.frames if is_inclusive else stack.frames[:1]
                for label in {key.label for key in frames if identifier.codes[side][key] is lack}:
                    labels.setdefault(label, [0.0, 0.0])[side] += stack.weight * run.scale / len(runs)
    heaviest = sorted(labels.items(), key=lambda one: -sum(one[1]))[:_EXAMPLES]
    return Apart(
        lacks=lack.what,
        remedy=lack.remedy,
        a=figures[0].mean,
        b=figures[1].mean,
        share_a=figures[0].share,
        share_b=figures[1].share,
        rows=len(labels),
        examples=tuple((label, *values) for label, values in heaviest),  # type: ignore[misc]
    )
