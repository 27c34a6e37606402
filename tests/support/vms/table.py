"""What is expected on each kernel in each configuration: read, compared with what was found, written anew.

One file for each configuration, in `tests/portability/expected`. That of root is whole; the others hold the rows in
which they differ from it on the same kernel. A row is one outcome where every kernel has the same, else the kernels of
each outcome. `absent` stands for a row that a kernel does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from ruamel.yaml import YAML

WHOLE = "root"
"""The configuration that the others are told apart from."""

ABSENT = "absent"

Rows: TypeAlias = dict[tuple[str, str], str]
"""What was found in one cell: (source, question) to outcome. Of a test: (its module, its name)."""

Table: TypeAlias = dict[tuple[str, str], Rows]
"""Every cell: (configuration, series) to its rows."""


def compare_rows(expected: Rows, found: Rows) -> list[str]:
    """Return a line for each row in which what was found is not what is expected."""
    lines = []
    for row in sorted({*expected, *found}):
        before, now = expected.get(row, ABSENT), found.get(row, ABSENT)
        if before != now:
            lines.append(f"{row[0]} {row[1]}: expected {before}, found {now}")
    return lines


def read_table(folder: Path, series: Iterable[str], tests: str) -> Table:
    """Read every cell of the files in a folder. `tests` is the configuration whose file stands for itself."""
    every = tuple(series)
    files = {path.stem: _parse_file(path.read_text(), every) for path in sorted(folder.glob("*.yaml"))}
    table: Table = {}
    for configuration, cells in files.items():
        for one in every:
            under = {} if configuration in (WHOLE, tests) else files[WHOLE].get(one, {})
            rows = {**under, **cells.get(one, {})}
            table[configuration, one] = {row: outcome for row, outcome in rows.items() if outcome != ABSENT}
    return table


def _parse_file(text: str, series: tuple[str, ...]) -> dict[str, Rows]:
    """Return the rows that a file holds, by kernel. Every scalar is read as it is written: 5.10 is no number."""
    cells: dict[str, Rows] = {one: {} for one in series}
    for name, rows in (YAML(typ="base", pure=True).load(text) or {}).items():
        for question, written in rows.items():
            outcomes = written if isinstance(written, dict) else {written: " ".join(series)}
            for outcome, kernels in outcomes.items():
                for one in kernels.split():
                    cells[one][name, question] = outcome
    return cells


def write_table(folder: Path, table: Table, series: Iterable[str], tests: str) -> None:
    """Write the files of a table, each row by the name of its source and the question.

    A cell that is not there, since its configuration is of other kernels alone, is taken for root's.
    """
    every = tuple(series)
    for configuration in {configuration for configuration, _ in table}:
        under: dict[str, Rows] = {one: {} if configuration in (WHOLE, tests) else table[WHOLE, one] for one in every}
        cells = {one: table.get((configuration, one), under[one]) for one in every}
        (folder / f"{configuration}.yaml").write_text(_render_file(cells, under))


def _render_file(cells: Mapping[str, Rows], under: Mapping[str, Rows]) -> str:
    """Render the rows in which some kernel's cell differs from what it stands on."""
    lines: list[str] = []
    named = None
    for row in sorted({row for rows in (*cells.values(), *under.values()) for row in rows}):
        outcomes: dict[str, list[str]] = {}
        for one, rows in cells.items():
            outcome = rows.get(row, ABSENT)
            if outcome != under[one].get(row, ABSENT):
                outcomes.setdefault(outcome, []).append(one)
        if not outcomes:
            continue
        if row[0] != named:
            named = row[0]
            lines.append(f"{named}:")
        lines.extend(_render_row(row[1], outcomes, len(cells)))
    return "\n".join([*lines, ""])


def _render_row(question: str, outcomes: Mapping[str, list[str]], count: int) -> list[str]:
    first, kernels = next(iter(outcomes.items()))
    if len(kernels) == count:
        return [f"  {question}: {_quote(first)}"]
    return [f"  {question}:", *(f"    {_quote(outcome)}: {' '.join(one)}" for outcome, one in outcomes.items())]


def _quote(outcome: str) -> str:
    """Quote what YAML would read otherwise: a skipped test's reason may hold anything."""
    return "'" + outcome.replace("'", "''") + "'" if ": " in outcome or " #" in outcome else outcome
