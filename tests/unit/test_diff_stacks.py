"""Which code is the same in two profiles, and what becomes of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stored_runs import (
    ENVIRONMENT,
    Plain,
    make_plain_result,
    make_plain_run,
    make_profile,
    make_stack_answer,
    name,
    write_plain_run,
)

from omn_core.diff.compare import compare_runs
from omn_core.diff.model import Answer, Apart, Comparison, Row, Table

ALPHA, BETA, MAIN = name("alpha"), name("beta"), name("main")
BUILD = {"/usr/bin/prog": ["aa11"]}


def compare(tmp_path: Path, a: Plain, b: Plain) -> Comparison:
    """Store two runs and compare them."""
    return compare_runs([write_plain_run(tmp_path / "a", a)], [write_plain_run(tmp_path / "b", b)])


def find_rows(comparison: Comparison, figure: str = "self") -> dict[str, Row]:
    """Return the rows of the stacks' table by the function."""
    table = find_table(comparison, figure)
    return {row.name.get("function", "(all)"): row for row in table.rows}


def find_table(comparison: Comparison, figure: str = "self") -> Table:
    answer: Answer = comparison.answers[0]
    return next(table for table in answer.tables if table.figure == figure)


def find_apart(comparison: Comparison) -> dict[str, Apart]:
    return {one.lacks: one for one in find_table(comparison).apart}


@pytest.mark.spec("DIF-1")
def test_a_share_that_was_changed_has_its_verdicts(tmp_path: Path) -> None:
    """70/30 made 50/50: one function less, the other more, the whole unchanged, each share beside its weight."""
    comparison = compare(
        tmp_path,
        make_profile({(ALPHA, MAIN): 700, (BETA, MAIN): 300}),
        make_profile({(ALPHA, MAIN): 500, (BETA, MAIN): 500}),
    )
    rows = find_rows(comparison)
    assert {label: row.verdict for label, row in rows.items()} == {"(all)": None, "alpha": "less", "beta": "more"}
    alpha = rows["alpha"]
    assert (alpha.a.mean, alpha.a.share, alpha.b.mean, alpha.b.share) == (700e6, 0.7, 500e6, 0.5)
    assert (alpha.difference, alpha.relative) == (-200e6, pytest.approx(-2 / 7))
    assert find_table(comparison).confidence == "within one run"
    inclusive = find_rows(comparison, "inclusive")
    assert {label: row.verdict for label, row in inclusive.items()} == {"main": None, "alpha": "less", "beta": "more"}
    assert inclusive["main"].a.mean == 1000e6
    assert comparison.answers[0].caveats == ("it is time on a cpu",)


@pytest.mark.spec("DIF-1")
def test_a_function_that_calls_itself_is_counted_once_a_stack(tmp_path: Path) -> None:
    """Recursion adds nothing to what a function and its callees took."""
    run = make_profile({(ALPHA, ALPHA, ALPHA, MAIN): 100})
    rows = find_rows(compare(tmp_path, run, run), "inclusive")
    assert (rows["alpha"].a.mean, rows["main"].a.mean) == (100e6, 100e6)


@pytest.mark.spec("DIF-1")
def test_a_renamed_function_is_not_the_same_code(tmp_path: Path) -> None:
    """A name that one side alone has gets no verdict: it is summed apart with its share, and named."""
    other = make_profile({(name("alpha_v2"), MAIN): 700, (BETA, MAIN): 300})
    comparison = compare(tmp_path, make_profile({(ALPHA, MAIN): 700, (BETA, MAIN): 300}), other)
    assert set(find_rows(comparison)) == {"(all)", "beta"}
    (apart,) = find_apart(comparison).values()
    assert apart.lacks == "the other side: no sample there has their name"
    assert (apart.a, apart.b, apart.share_a, apart.share_b, apart.rows) == (700e6, 700e6, 0.7, 0.7, 2)
    assert apart.examples == (("alpha", 700e6, 0.0), ("alpha_v2", 0.0, 700e6))


@pytest.mark.spec("DIF-1")
def test_a_function_without_a_sample_in_the_same_build_is_a_measured_zero(tmp_path: Path) -> None:
    """The file is the same on both sides, byte for byte: what took nothing there took nothing, and it has a verdict."""
    comparison = compare(
        tmp_path, make_profile({(ALPHA, MAIN): 70, (BETA, MAIN): 300}, BUILD), make_profile({(BETA, MAIN): 300}, BUILD)
    )
    rows = find_rows(comparison)
    assert (rows["alpha"].verdict, rows["alpha"].b.mean, rows["alpha"].relative) == ("less", 0.0, -1.0)
    assert not find_apart(comparison)


@pytest.mark.spec("DIF-1")
def test_a_stripped_binary_is_not_the_same_code_as_its_symbols(tmp_path: Path) -> None:
    """Stripping keeps the build: the offsets of one side and the names of the other are both summed apart."""
    stripped = make_profile({(name("prog+0x1139", by=None),): 500, (name("prog+0x1200", by=None),): 500}, BUILD)
    comparison = compare(tmp_path, make_profile({(ALPHA,): 700, (BETA,): 300}, BUILD), stripped)
    assert set(find_rows(comparison)) == {"(all)"}
    (apart,) = find_apart(comparison).values()
    assert (apart.share_a, apart.share_b, apart.rows) == (1.0, 1.0, 4)


@pytest.mark.spec("DIF-1")
def test_an_offset_is_the_same_code_in_the_same_build_alone(tmp_path: Path) -> None:
    """By the offset where both sides recorded one build; summed apart by what is lacking else."""

    def make(first: int, second: int, builds: dict[str, list[str]]) -> Plain:
        one, two = (name(f"prog+{offset:#x}", by=None) for offset in (0x1139, 0x1200))
        return make_profile({(one,): first, (two,): second}, builds)

    same = find_rows(compare(tmp_path, make(700, 300, BUILD), make(500, 500, BUILD)))
    assert {label: row.verdict for label, row in same.items()} == {
        "(all)": None,
        "prog+0x1139": "less",
        "prog+0x1200": "more",
    }
    for builds, lacks in (
        ({"/usr/bin/prog": ["bb22"]}, "a name, in a file that is another build on the other side"),
        ({"/usr/bin/prog": ["aa11", "bb22"]}, "a name, in a file that is another build on the other side"),
        ({}, "a name, in a file whose build is not known to be the other side's"),
    ):
        comparison = compare(tmp_path, make(700, 300, BUILD), make(500, 500, builds))
        assert set(find_rows(comparison)) == {"(all)"}
        assert {lack: one.share_a for lack, one in find_apart(comparison).items()} == {lacks: 1.0}


@pytest.mark.spec("DIF-1")
def test_what_names_nothing_in_another_process_is_summed_by_what_it_lacks(tmp_path: Path) -> None:
    """Generated code, a kernel that hides its addresses, memory that nobody mapped, an event without a stack."""
    run = make_profile(
        {
            (name("[anon]", "[anon]", None),): 40,
            (name("[kernel]", "[kernel]", None),): 30,
            (name("[unknown]", None, None),): 20,
            (): 10,
            (ALPHA,): 100,
        }
    )
    comparison = compare(tmp_path, run, run)
    apart = find_apart(comparison)
    assert {lacks: one.a for lacks, one in apart.items()} == {
        "a name: code that was generated as it ran": 40e6,
        "a name: the kernel's addresses were hidden": 30e6,
        "a mapping: nothing known stood at the address": 20e6,
        "a stack": 10e6,
    }
    assert apart["a name: code that was generated as it ran"].remedy == "have the runtime write /tmp/perf-PID.map"
    assert {label: row.verdict for label, row in find_rows(comparison).items()} == {"(all)": None, "alpha": None}


@pytest.mark.spec("DIF-1")
def test_a_file_is_the_same_one_elsewhere_or_in_another_version(tmp_path: Path) -> None:
    """By its build, by its name apart from the version, or as the one that is left: then it is said."""
    libc = [name("malloc", f"/lib/libc.so.{version}") for version in (6, 7)]
    crypt = [name("malloc", f"/opt/{folder}/crypt") for folder in ("one", "two")]
    runs = [
        make_profile({(libc[side],): 300, (crypt[side],): 200, (name("alpha", path),): 700})
        for side, path in enumerate(("/build/old/sort", "/build/new/sort2"))
    ]
    comparison = compare(tmp_path, *runs)
    rows = [row.name for row in find_table(comparison).rows]
    assert {"function": "malloc", "object": "/lib/libc.so.6"} in rows
    assert {"function": "malloc", "object": "/opt/one/crypt"} in rows
    assert {"function": "alpha", "object": "/build/old/sort"} in rows
    said = "/build/old/sort in A is compared with /build/new/sort2 in B, by their symbols"
    assert said in comparison.answers[0].facts


@pytest.mark.spec("DIF-1")
def test_two_files_with_one_name_are_two_rows(tmp_path: Path) -> None:
    """The `init` of one library is not that of another, whichever of them is there."""
    run = make_profile({(name("init", "/lib/a.so"),): 100, (name("init", "/lib/b.so"),): 50})
    rows = [row for row in find_table(compare(tmp_path, run, run)).rows if row.name]
    assert sorted((row.name["object"], row.a.mean) for row in rows) == [("/lib/a.so", 100e6), ("/lib/b.so", 50e6)]


@pytest.mark.spec("DIF-1")
def test_a_kernel_function_is_a_zero_only_under_the_same_kernel(tmp_path: Path) -> None:
    """Kernel code that one side never ran has a verdict under one build of the kernel, and is set apart under two."""
    read, write = (name(label, "[kernel]", "kallsyms") for label in ("vfs_read", "vfs_write"))
    a, b = make_profile({(read,): 100, (write,): 50}), make_profile({(read,): 100})
    assert find_rows(compare(tmp_path, a, b))["vfs_write"].verdict == "less"
    other = {**b, "environment": {**ENVIRONMENT, "kernel": "6.12.0"}}
    assert "vfs_write" not in find_rows(compare(tmp_path, a, other))
    user_only = make_profile({(ALPHA,): 100})
    assert "vfs_write" not in find_rows(compare(tmp_path, make_profile({(write,): 50, (ALPHA,): 100}), user_only))


@pytest.mark.spec("DIF-1", "STK-7")
def test_a_frame_that_was_inferred_is_marked(tmp_path: Path) -> None:
    """It is the same function, and its row says that some of its stacks were not walked to it."""
    recovered = name("main [recovered]")
    a, b = make_profile({(ALPHA, MAIN): 100}), make_profile({(ALPHA, recovered): 100})
    rows = find_rows(compare(tmp_path, a, b), "inclusive")
    assert {label: row.is_recovered for label, row in rows.items()} == {"alpha": False, "main": True}


@pytest.mark.spec("DIF-1")
def test_windows_that_are_not_the_programs_own_are_compared_a_second(tmp_path: Path) -> None:
    """Five seconds of a server beside ten of it: the same load is no difference, and the unit says so."""

    def make(samples: int, seconds: int) -> Plain:
        window = {"opened_ns": 0, "closed_ns": seconds * 1_000_000_000}
        answer = make_stack_answer({(ALPHA,): samples})
        return make_plain_run(make_plain_result({"stack": answer}, window=window), ended_by="duration", program=None)

    comparison = compare(tmp_path, make(500, 5), make(1000, 10))
    assert find_table(comparison).is_per_second
    rows = find_rows(comparison)
    assert (rows["alpha"].a.mean, rows["alpha"].b.mean, rows["alpha"].verdict) == (100e6, 100e6, None)
    assert not find_table(compare(tmp_path, make(500, 5), make(900, 5))).is_per_second
    assert find_rows(compare(tmp_path, make(500, 5), make(900, 5)))["alpha"].verdict == "more"


@pytest.mark.spec("DIF-1", "EMT-2")
def test_weighted_occurrences_are_no_more_certain_than_their_samples(tmp_path: Path) -> None:
    """A hundred faults a sample: four samples against six are ten, not a thousand."""

    def make(samples: int) -> Plain:
        answer: dict[str, Any] = make_stack_answer({(ALPHA,): samples})
        answer["rows"][0] |= {"weight": samples * 100, "count": samples * 100}
        return make_plain_run(make_plain_result({"stack": answer}, unit="count", value="faults", events_seen=samples))

    row = find_rows(compare(tmp_path, make(40), make(60)))["alpha"]
    assert (row.a.mean, row.a.events, row.verdict) == (4000.0, 40.0, None)
    assert row.error == pytest.approx(1000.0)
