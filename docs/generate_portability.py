"""Write the manual's page on kernels from the table that guests are held to: `python docs/generate_portability.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from vms.kernels import SERIES  # noqa: E402  the table's own modules are found there
from vms.table import ABSENT, WHOLE, Rows, Table, read_table  # noqa: E402

PAGE = ROOT / "docs" / "portability.md"
EXPECTED = ROOT / "tests" / "portability" / "expected"
TESTS = "guest"

CONFIGURATIONS = {
    "user": ("An ordinary user", "without any capability, at `kernel.perf_event_paranoid` 3, as Debian leaves it"),
    "no-btf": ("Without the kernel's types", "an empty folder in place of `/sys/kernel/btf`"),
    "no-tracefs": ("Without tracefs", "neither tracefs nor debugfs is mounted"),
    "low-memlock": (
        "With little locked memory",
        "Linux 5.10 alone, where a process may lock 64 KiB, as it may where nobody raised it: elsewhere nothing does",
    ),
    "no-controllers": ("Without cgroup2's controllers", "cgroup2 is mounted and no controller is on"),
}

HEAD = """# Kernels

omn runs on Linux 5.10 and later. Every source is asked on Debian's cloud kernels of five series, in virtual machines,
as root and in poorer configurations, and what answered is held to a table: this page is made of it. A kernel that is
not here is asked in the same way when omn runs: `omn list` says what your machine serves, and why not.

A cell is the mechanism that serves, or why none does: `missing` (not on this kernel), `restricted` (closed to this
user), `uncollected` (no program reads it yet). What is `refused` is there and does not begin. Before Linux 5.11 the
maps of eBPF programs are charged to the limit of locked memory, which is 64 KiB until it is raised (`ulimit -l
unlimited`): omn lifts its own as far as it may while it makes them, and it is raised here, unless the page says
otherwise. The guests have two cpus without hardware counters,
sensors or graphics cards, so that what needs those is missing in every one.
"""


def render_page(table: Table) -> str:
    """Return the page's text."""
    lines = [HEAD, "## What differs between kernels", "", "As root, with tracefs, types and controllers.", ""]
    lines += _iter_kernels({series: table[WHOLE, series] for series in SERIES})
    held = {configuration for configuration, _ in table}
    for name, (title, meaning) in CONFIGURATIONS.items():
        if name not in held:
            continue
        lines += ["", f"## {title}", "", f"What changes against root: {meaning}.", ""]
        lines += _iter_changes(table, name)
    return "\n".join([*lines, ""])


def _iter_kernels(cells: Mapping[str, Rows]) -> Iterator[str]:
    """Yield the table of rows in which kernels differ, and a mechanism serves on some of them."""
    rows: list[tuple[str, ...]] = []
    for row in sorted({row for rows in cells.values() for row in rows}):
        outcomes = [cell.get(row, ABSENT) for cell in cells.values()]
        if len(set(outcomes)) > 1 and any(map(_serves, outcomes)):
            rows.append((row[0], row[1], *outcomes))
    yield from _render(("source", "asked", *cells), _join_modes(rows))


def _iter_changes(table: Table, name: str) -> Iterator[str]:
    """Yield the table of rows that differ from root's, where a mechanism serves one of the two."""
    rows: list[tuple[str, ...]] = []
    for row in sorted({row for series in SERIES for row in table[name, series]}):
        outcomes: dict[tuple[str, str], list[str]] = {}
        for series in SERIES:
            before, now = table[WHOLE, series].get(row, ABSENT), table[name, series].get(row, ABSENT)
            if before != now and (_serves(before) or _serves(now)):
                outcomes.setdefault((before, now), []).append(series)
        for (before, now), series in outcomes.items():
            rows.append((row[0], row[1], before, now, "all" if len(series) == len(SERIES) else " ".join(series)))
    yield from _render(("source", "asked", "root", "here", "kernels"), _join_modes(rows))


def _serves(outcome: str) -> bool:
    """Whether an outcome is a mechanism, and not why there is none."""
    return outcome not in (ABSENT, "missing", "restricted", "uncollected", "unknown", "unusable", "not served")


def _join_modes(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Join the rows of one source that say the same into one; what is listed says nothing that they do not."""
    joined: dict[tuple[str, ...], list[str]] = {}
    for source, asked, *rest in rows:
        if asked != "listed":
            joined.setdefault((source, *rest), []).append(asked)
    return [(f"`{source}`", ", ".join(asked), *rest) for (source, *rest), asked in joined.items()]


def _render(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        yield "Nothing."
        return
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(render_page(read_table(EXPECTED, SERIES, TESTS)))
