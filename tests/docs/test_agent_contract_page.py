"""The page of the agent trace contract: every requirement is held by a module that is there and proven by a test."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator

import attrs
import pytest
from manual import ROOT, read_page

pytestmark = pytest.mark.spec("AGT-1", "AGT-10")

PAGE = "agent-contract.md"
OUTSIDE = "Outside"
CODE = re.compile(r"`([^`]+)`")


@attrs.frozen
class Row:
    """One row of a table, and the section that it stands in."""

    section: str
    cells: tuple[str, ...]


def iter_rows(text: str) -> Iterator[Row]:
    """Yield the rows of every table, the heads apart."""
    section, is_head = "", True
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if not line.startswith("|"):
            is_head = True
        elif is_head:
            is_head = False
        elif not line.startswith("|---"):
            yield Row(section, tuple(cell.strip() for cell in line.strip("|").split(" | ")))


@functools.cache
def list_tests(path: str) -> set[str]:
    """Return the names of a file's tests."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


ROWS = [row for row in iter_rows(read_page(PAGE)) if row.section != OUTSIDE]


def test_every_requirement_names_a_module_and_a_test() -> None:
    """A row has three cells, none of them empty, and says a thing once."""
    assert len(ROWS) > 20
    assert [
        row.cells for row in ROWS if len(row.cells) != 3 or not all(CODE.findall(cell) for cell in row.cells[1:])
    ] == []
    said = [(row.section, row.cells[0]) for row in ROWS]
    assert len(said) == len(set(said))


def test_every_test_that_is_named_is_there() -> None:
    """A test that was renamed or taken away takes its row's proof with it."""
    named = {name for row in ROWS for name in CODE.findall(row.cells[2])}
    missing = set()
    for name in named:
        path, _, test = name.partition("::")
        if not (ROOT / path).is_file() or test not in list_tests(path):
            missing.add(name)
    assert missing == set()


def test_every_module_that_is_named_is_there() -> None:
    """As an import spells it, or as a file of the tree that is no module."""
    named = {name for row in ROWS for name in CODE.findall(row.cells[1])}
    missing = {name for name in named if not (ROOT / name).is_file() and importlib.util.find_spec(name) is None}
    assert missing == set()


def test_what_is_outside_says_why() -> None:
    """A statement that is not held has its reason beside it."""
    outside = [row.cells for row in iter_rows(read_page(PAGE)) if row.section == OUTSIDE]
    assert len(outside) > 5
    assert [cells for cells in outside if len(cells) != 2 or not all(cells)] == []
