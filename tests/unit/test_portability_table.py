"""The table of what is expected on each kernel: written, read, and compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vms.table import ABSENT, Rows, Table, compare_rows, read_table, write_table

SERIES = ("5.10", "6.1", "7")
ROW = ("mem.rss", "launch poll")
OTHER = ("proc.exec", "system trace")

_names = st.sampled_from(["fs:proc:statm", "pmu:sw, silent", "missing", "skipped: a reason # it's: said"])
_rows = st.dictionaries(st.sampled_from([ROW, OTHER, ("mem.rss", "listed"), ("mem.pss", "launch poll")]), _names)
_tables = st.fixed_dictionaries(
    {(name, series): _rows for name in ("root", "user", "guest") for series in SERIES},
)


@given(table=_tables)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_reads_back_as_it_was_written(tmp_path: Path, table: Table) -> None:
    """Whatever differs between kernels and configurations, and whatever a test said when it skipped."""
    write_table(tmp_path, table, SERIES, "guest")
    assert read_table(tmp_path, SERIES, "guest") == table


def write(folder: Path, root: dict[str, Rows], user: dict[str, Rows]) -> dict[str, str]:
    table = {("root", one): root[one] for one in SERIES} | {("user", one): user[one] for one in SERIES}
    write_table(folder, table, SERIES, "guest")
    return {path.stem: path.read_text() for path in folder.glob("*.yaml")}


def test_an_outcome_that_every_kernel_has_is_one_line(tmp_path: Path) -> None:
    """And one that some have names them; a configuration that changes nothing has no row."""
    root = {one: {ROW: "fs:proc:statm", OTHER: "netlink:proc"} for one in SERIES}
    root["5.10"] = {**root["5.10"], OTHER: "restricted"}
    files = write(tmp_path, root, root)
    assert files["user"].strip() == ""
    assert files["root"].splitlines() == [
        "mem.rss:",
        "  launch poll: fs:proc:statm",
        "proc.exec:",
        "  system trace:",
        "    restricted: 5.10",
        "    netlink:proc: 6.1 7",
    ]


def test_a_row_that_a_configuration_lacks_is_absent_from_it(tmp_path: Path) -> None:
    """Absence is written, since what is not written is as root has it."""
    root = {one: {ROW: "fs:proc:statm"} for one in SERIES}
    files = write(tmp_path, root, {one: {} for one in SERIES})
    assert files["user"].splitlines() == ["mem.rss:", f"  launch poll: {ABSENT}"]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ({}, "mem.rss launch poll: expected fs:proc:statm, found absent"),
        ({ROW: "missing"}, "mem.rss launch poll: expected fs:proc:statm, found missing"),
        ({ROW: "fs:proc:statm", OTHER: "netlink:proc"}, "proc.exec system trace: expected absent, found netlink:proc"),
    ],
)
def test_what_stops_and_what_begins_to_work_are_both_told(found: Rows, line: str) -> None:
    """A table that only failed when something stopped would soon say less than is true."""
    assert compare_rows({ROW: "fs:proc:statm"}, found) == [line]
    assert compare_rows(found, found) == []
