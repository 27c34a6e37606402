"""Runs with stacks, made by hand: what the tests of every format of stacks write and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from shapes import make_batch, make_document, make_resolved, make_result

from omn_core.model.losses import Losses
from omn_core.model.result import Document, Result, SeriesResult

Row = dict[str, Any]

NASTY_LABELS = (
    "a;b c 7",
    "line\nbreak\ttab\r",
    "nul\0byte",
    b"caf\xe9\xff".decode("utf-8", "surrogateescape"),
    "quote\"\\back'slash",
    "</script><!-- & -->",
    "\u6f22\u5b57 \U0001f600 \u2028 \x1b[31m",
    "x" * 65_536,
    "",
    " 1.5",
    "#not a comment",
    "operator<<(std::ostream&, int) [recovered]",
)
"""Names that a program may give its functions, each with something that some format reads as its own."""


def make_row(frames: Sequence[str], weight: float, count: float = 1, holder: str | None = "/usr/bin/prog") -> Row:
    """Make a row of the stack emit, its frames from the innermost to the outermost."""
    return {
        "frames": list(frames),
        "weight": weight,
        "count": count,
        "named_by": ["symtab"] * len(frames),
        "objects": [holder] * len(frames),
    }


def make_stack_result(
    series: Mapping[str | None, Sequence[Row]],
    *,
    source: str = "cpu.profile",
    unit: str = "ns",
    losses: Losses | None = None,
    **changes: Any,
) -> Result:
    """Make a result whose series are those of the key `task`, or the one series of no key under None."""
    losses = Losses() if losses is None else losses
    keys = ("task",) if None not in series else ()
    resolved = make_resolved(("stack",), mode="sample", keys=keys, unit=unit)
    resolved = attrs.evolve(resolved, entry=attrs.evolve(resolved.entry, id=source, unit=unit), **changes)
    made = make_result(make_batch([1]), ["count"])
    results = tuple(
        SeriesResult(
            {} if task is None else {"task": task},
            {"stack": {"lower_bound": losses.is_lower_bound, "rows": list(rows)}},
        )
        for task, rows in series.items()
    )
    return attrs.evolve(made, resolved=resolved, series=results, losses=losses)


def make_nasty_stacks() -> Document:
    """Make a run in which every nasty name is an outermost frame, an innermost one and the only one."""
    rows = [make_row([name, "main"], 3 + place) for place, name in enumerate(NASTY_LABELS)]
    rows += [make_row(["leaf", name], 2, holder=name) for name in NASTY_LABELS]
    rows += [make_row([name], 1, holder=None) for name in NASTY_LABELS]
    return make_document(make_stack_result({None: rows}))


def make_tree() -> Document:
    """Make a run of two threads: 70 in work, 30 in rest, and a deep recursion of 5000 frames."""
    return make_document(
        make_stack_result(
            {
                "7": [make_row(["work", "main"], 70_000, 7), make_row(["rest", "main"], 30_000, 3)],
                "8": [make_row(["down"] * 5000 + ["main"], 5_000, 1)],
            },
            losses=Losses(dropped=3, reasons=("the ring was full",)),
        )
    )
