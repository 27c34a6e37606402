"""Every source on every kernel that the project runs on, in each configuration of the machine, held to a table.

`tox -e portability` runs them all; `tox -e portability -- --rewrite-table` writes the table anew. One cell alone:
`tox -e portability -- 'tests/portability/test_portability.py::test_every_source_answers_as_expected[6.1-user]'`.
"""

from __future__ import annotations

from typing import Any

import pytest
from vms.kernels import SERIES

CONFIGURATIONS = ("root", "user", "no-btf", "no-tracefs", "no-controllers")
CELLS = [*((series, name) for series in SERIES for name in CONFIGURATIONS), ("5.10", "low-memlock")]
"""Only 5.10 charges eBPF's maps to the limit of locked memory."""

pytestmark = pytest.mark.timeout(3600)


def get_record(boots: Any, series: str, cell: str) -> dict[str, Any]:
    """Return what the guest reported of a cell. Fails with the end of its console where it did not."""
    boot = boots.get(series, cell)
    record: dict[str, Any] = boot.records.get(cell) or {"failure": boot.reason}
    assert "failure" not in record, record["failure"]
    return record


@pytest.mark.spec("KRN-9", "BEN-3", "PRB-1")
@pytest.mark.parametrize(("series", "configuration"), CELLS)
def test_every_source_answers_as_expected(boots: Any, check: Any, series: str, configuration: str) -> None:
    """Nothing that worked stops, and nothing begins to work that the table does not know of."""
    record = get_record(boots, series, configuration)
    found = {(source, "listed"): through for source, through in record["listed"].items()}
    for question, outcome in record["answers"].items():
        source, _, asked = question.partition(" ")
        found[source, asked] = outcome
    lines = check(configuration, series, found)
    reasons = [f"  {name}: {reason}" for name, reason in record["reasons"].items() if any(name in one for one in lines)]
    assert not lines, "\n".join(["", *lines, "the reasons that the guest gave:", *reasons])


@pytest.mark.spec("KRN-9")
@pytest.mark.parametrize("series", SERIES)
def test_the_tests_of_a_guest_pass(boots: Any, check: Any, series: str) -> None:
    """The tests in `guest` pass inside each kernel; one that skips is in the table with its reason."""
    record = get_record(boots, series, "guest")
    outcomes = record["tests"]
    assert outcomes
    assert "failed" not in outcomes.values(), record["said"]
    others = [(name.partition("::"), outcome) for name, outcome in outcomes.items() if outcome != "passed"]
    found = {(module, test): outcome for (module, _, test), outcome in others}
    lines = check("guest", series, found)
    assert not lines, "\n".join(["", *lines])


@pytest.mark.spec("SCH-1", "KRN-9")
@pytest.mark.parametrize(("series", "configuration"), [("5.10", "nodes"), ("6.12", "nodes")])
def test_a_guest_of_two_memory_nodes_decides_about_tasks(boots: Any, series: str, configuration: str) -> None:
    """What is counted there of the kernel's decisions is what tracefs records of them."""
    record = get_record(boots, series, configuration)
    assert set(record["tests"].values()) == {"passed"}, record["said"]
