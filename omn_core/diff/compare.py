"""Two sides of stored runs compared: every question that both answered, and by name what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omn_core.diff.answers import Asked, list_facts, pair_requests
from omn_core.diff.figures import compare_figures, has_figures
from omn_core.diff.model import Answer, Comparison, Refusal
from omn_core.diff.sides import compare_machines, read_side
from omn_core.diff.stacks import compare_stacks
from omn_core.errors import RequestError

_INSTEAD = {
    "hist": "a distribution has no one figure: ask a summary beside it",
    "timeline": "a course over time has no one figure: ask a summary beside it",
    "raw": "events have no counterpart in another run: ask a count or a summary beside them",
}


def compare_runs(a: Sequence[Path], b: Sequence[Path]) -> Comparison:
    """Compare the runs stored in some places with those in others.

    Raises RequestError for a place that holds no run, and where nothing of the two can be compared, with each reason.
    """
    side_a, side_b = read_side("A", a), read_side("B", b)
    asked, refused = pair_requests(side_a, side_b)
    answers: list[Answer] = []
    for one in asked:
        _compare_emits(one, answers, refused)
    if not answers:
        reasons = "; ".join(f"{one.what}: {one.reason}" for one in refused) or "neither holds an answer"
        raise RequestError(f"nothing of A and B can be compared: {reasons}", "compare runs that asked the same")
    return Comparison(
        a=tuple(run.ran for run in side_a.runs),
        b=tuple(run.ran for run in side_b.runs),
        machines=compare_machines(side_a, side_b),
        answers=tuple(answers),
        refused=tuple(refused),
        notes=(*side_a.notes, *side_b.notes),
    )


def _compare_emits(asked: Asked, answers: list[Answer], refused: list[Refusal]) -> None:
    emits = [[tuple(map(str, one["request"]["emits"])) for one in side] for side in asked.sides]
    for emit in dict.fromkeys(emit for side in emits for of in side for emit in of):
        what = f"{asked.source}'s {emit}"
        lacking = [name for name, side in zip("AB", emits, strict=True) if not all(emit in of for of in side)]
        if lacking:
            refused.append(Refusal(what, f"{' and '.join(lacking)} did not ask it"))
        elif emit == "stack" and "within" in asked.first["request"]["keys"]:
            refused.append(Refusal(what, "the key within puts an event in several series, whose stacks do not add up"))
        elif emit != "stack" and not has_figures(emit):
            name = emit.partition("@")[0].partition(":")[0]
            refused.append(Refusal(what, _INSTEAD.get(name, "what it answers is not known to be figures")))
        else:
            answers.append(_compare_emit(asked, emit))


def _compare_emit(asked: Asked, emit: str) -> Answer:
    try:
        if emit == "stack":
            tables, facts = compare_stacks(asked, emit)
        else:
            tables, facts = compare_figures(asked, emit), ()
        said = list_facts(asked)
        caveats = dict.fromkeys(caveat for side in asked.sides for one in side for caveat in one["caveats"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        # The files are checked as far as what every run has; what an answer holds is known to its emit alone.
        raise RequestError(
            f"{asked.source}'s {emit} is not an answer that omn wrote: {type(error).__name__}: {error}"
        ) from error
    first = asked.first
    return Answer(
        source=asked.source,
        mode=str(first["request"]["mode"]),
        emit=emit,
        value=str(first["value"]),
        unit=str(first["unit"]),
        tables=tables,
        facts=(*said, *facts),
        caveats=tuple(caveats),
    )
