"""Stacks: interned once, answered by weight, drawn as a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shapes import ask, make_series

from omn_core.emit.stack import STACK
from omn_core.format.stack_tree import render_tree
from omn_core.model.batch import Batch, Column
from omn_core.model.request import EmitSpec
from omn_core.model.stacks import Frame, Stacks
from omn_core.model.style import TextStyle


def make_stacks() -> tuple[Stacks, int, int]:
    stacks = Stacks()
    leaf, main = (stacks.intern_frame(Frame(name, "/bin/x", "symtab")) for name in ("leaf", "main"))
    unnamed = stacks.intern_frame(Frame("x+0x10", "/bin/x"))
    return stacks, stacks.intern([leaf, main]), stacks.intern([unnamed, main])


def make_row(weight: float, *frames: str) -> dict[str, Any]:
    return {"frames": list(frames), "weight": weight, "count": 1, "named_by": [], "objects": []}


def test_a_stack_and_a_frame_have_one_number() -> None:
    """The same again is the same; a number that nobody gave is an error."""
    stacks, first, second = make_stacks()
    assert first != second
    frames = [stacks.intern_frame(frame) for frame in stacks.get_frames(first)]
    assert (stacks.intern(frames), len(stacks)) == (first, 2)
    with pytest.raises(IndexError):
        stacks.get_frames(-1)


@pytest.mark.spec("EMT-1", "EVT-5")
def test_stacks_are_rows_by_their_weight() -> None:
    """From the innermost frame, the heaviest first; events without a stack are a row without frames."""
    stacks, first, second = make_stacks()
    batch = Batch(
        np.arange(4), attributes={"value": Column(np.array([5, 7, 1, 3]))}, stack=np.array([first, second, first, -1])
    )
    answer = STACK.compute(make_series(batch, stacks=stacks, adds_up=True), EmitSpec("stack"))
    assert answer["rows"] == [
        {
            "frames": ["x+0x10", "main"],
            "weight": 7,
            "count": 1,
            "named_by": [None, "symtab"],
            "objects": ["/bin/x", "/bin/x"],
        },
        {
            "frames": ["leaf", "main"],
            "weight": 6,
            "count": 2,
            "named_by": ["symtab", "symtab"],
            "objects": ["/bin/x", "/bin/x"],
        },
        {"frames": [], "weight": 3, "count": 1, "named_by": [], "objects": []},
    ]


def test_weights_are_what_samples_stand_for() -> None:
    """A sample of a hundred faults is a hundred faults."""
    stacks, first, _ = make_stacks()
    column = Column(np.array([1, 1]))
    batch = Batch(
        np.arange(2), attributes={"value": column}, weight=np.array([100, 50]), stack=np.array([first, first])
    )
    (row,) = STACK.compute(make_series(batch, stacks=stacks, adds_up=True), EmitSpec("stack"))["rows"]
    assert (row["weight"], row["count"]) == (150, 150)


def test_nothing_sampled_is_no_rows() -> None:
    """And the text says so."""
    answer = ask("stack", Batch.empty(), adds_up=True)
    assert answer["rows"] == []
    assert STACK.render(answer, "ns", TextStyle()) == ["no stacks"]


def test_a_chain_without_branches_costs_no_depth() -> None:
    """What calls one function alone stands above it, not before it; branches are indented, heaviest first."""
    rows = [make_row(70, "hot", "work", "main"), make_row(30, "cold", "work", "main")]
    assert render_tree({"rows": rows, "lower_bound": False}, "count", TextStyle()) == [
        "100 in 2 events, 2 stacks",
        "100.0 %  100  main",
        "100.0 %  100  work",
        " 70.0 %   70    hot",
        " 30.0 %   30    cold",
    ]


def test_light_branches_are_counted_and_a_loss_is_marked() -> None:
    """Below a hundredth nothing is drawn; a figure over lost samples is a lower bound."""
    rows = [make_row(999, "hot"), make_row(1, "rare"), make_row(0, *())]
    lines = render_tree({"rows": rows, "lower_bound": True}, "count", TextStyle())
    assert lines == [">= 1000 in 3 events, 3 stacks", " 99.9 %  999  hot", "(2 lighter calls are not shown)"]


def test_a_deep_stack_and_a_hostile_name_are_drawn() -> None:
    """Five thousand frames need no stack of Python's own, and a name that does not print is escaped and cut."""
    rows = [make_row(10, "a\x1b[31m" + "n" * 300, *(f"f{place}" for place in range(5000)))]
    lines = render_tree({"rows": rows, "lower_bound": False}, "count", TextStyle(width=60))
    assert len(lines) == 42
    assert all(len(line) <= 60 and line.isprintable() for line in lines)
