"""`omn diff` from the command line: a profile that was changed, what is printed, every refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from closed_events import hold_served
from compiled import compile_c
from stored_runs import make_plain_result, make_plain_run, make_profile, name, write_plain_run

SPLIT = r"""
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline)) void alpha(long n) { for (long i = 0; i < n; i++) sum += i; }
__attribute__((noinline)) void beta(long n) { for (long i = 0; i < n; i++) sum ^= i; }
static long spend(void (*work)(long)) {
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    work(400000);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec;
}
int main(int argc, char **argv) {
    long share = atol(argv[1]), total = atol(argv[2]) * 1000000L, spent[2] = {0, 0};
    while (spent[0] + spent[1] < total) {
        if (spent[0] * 100 <= (spent[0] + spent[1]) * share) spent[0] += spend(alpha);
        else spent[1] += spend(beta);
    }
    return 0;
}
"""
"""A second of cpu time, divided between two functions by the time that they took and not by how often they ran."""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.spec("DIF-1", "RUN-8")
def test_a_program_whose_shares_were_changed_has_the_right_verdicts(omn: Any, tmp_path: Path) -> None:
    """70/30 made 50/50: less of the one function and more of the other; a run beside itself has no verdict at all."""
    program = compile_c(tmp_path, "split", SPLIT, "-O1")
    for folder, share in (("before", "70"), ("after", "50")):
        ran = omn("cpu.profile", "-e", "stack", "-o", folder, "--", str(program), share, "1000")
        hold_served(ran.code, ran.stderr)
    compared = omn("diff", "before", "after", "--format", "json")
    assert (compared.code, compared.stderr) == (0, "")
    (answer,) = compared.document["answers"]
    (table,) = (table for table in answer["tables"] if table["figure"] == "self")
    rows = {
        row["name"].get("function"): row for row in table["rows"] if row["name"].get("object") in (None, str(program))
    }
    assert {label: rows[label]["verdict"] for label in ("alpha", "beta")} == {"alpha": "less", "beta": "more"}
    assert abs(rows["alpha"]["a"]["share"] - 0.7) < 0.1
    assert abs(rows["alpha"]["b"]["share"] - 0.5) < 0.1
    assert "it is time on a cpu; what waits is in none of it" in answer["caveats"]
    itself = omn("diff", "before", "before", "--format", "json").document
    assert {row["verdict"] for table in itself["answers"][0]["tables"] for row in table["rows"]} == {None}


@pytest.mark.spec("DIF-1")
def test_the_text_says_what_its_figures_are(omn: Any, tmp_path: Path) -> None:
    """Shares beside weights, what the verdicts stand on, that inclusive figures do not add up, what is set apart."""
    alpha, beta, main = name("alpha"), name("beta"), name("main")
    anonymous = name("[anon]", "[anon]", None)
    write_plain_run(tmp_path / "a", make_profile({(alpha, main): 700, (beta, main): 300, (anonymous, main): 50}))
    write_plain_run(tmp_path / "b", make_profile({(alpha, main): 500, (beta, main): 500, (anonymous, main): 50}))
    text = " ".join(omn("diff", "a", "b").stdout.decode().split())
    for said in (
        "A a: 1 run of 1 s, prog",
        "caveat it is time on a cpu",
        "within one run a side: by the noise of counting alone",
        "inclusive: with all that it called; these do not add up",
        "less -28.6 % 0.700 s 66.7 % 0.500 s 47.6 % alpha",
        "more +66.7 % 0.300 s 28.6 % 0.500 s 47.6 % beta",
        "not compared, lacking a name: code that was generated as it ran: 50 ms (4.8 %) in A, 50 ms (4.8 %) in B",
        "1 row ([anon]); have the runtime write /tmp/perf-PID.map",
    ):
        assert said in text


@pytest.mark.spec("DIF-1")
def test_a_pipe_has_every_row(omn: Any, tmp_path: Path) -> None:
    """Fifty functions are fifty lines of either table; one of few samples is listed too, flagged and the last."""
    functions = {(name(f"function{number:02d}"),): 100 + number for number in range(50)}
    write_plain_run(tmp_path / "a", make_profile({**functions, (name("rare"),): 3}))
    lines = omn("diff", "a", "a").stdout.decode().splitlines()
    assert sum("  function" in line for line in lines) == 2 * 50
    places = [place for place, line in enumerate(lines) if line.split()[:1] == ["few"]]
    assert [lines[place].split()[-1] for place in places] == ["rare", "rare"]
    said = "  (few: fewer than 10 events a run on both sides, which is not judged)"
    assert [lines[place + 1] for place in places] == [said, said]


def test_the_figures_of_one_thing_are_one_table(omn: Any, tmp_path: Path) -> None:
    """A summary of one series is a line a figure, under one head."""
    summary = {"lower_bound": False, "count": 9, "min": 1, "max": 60, "mean": 30, "p50": 20, "p90": 40, "p99": 50}
    result = make_plain_result({"summary": summary}, source="mem.rss", unit="bytes", mode="poll", adds_up=False)
    write_plain_run(tmp_path / "a", make_plain_run(result))
    text = omn("diff", "a", "a").stdout.decode()
    assert text.count("change") == 1
    assert [line.split()[-1] for line in text.splitlines() if " B  " in line] == ["mean", "p50", "p90", "p99", "max"]


@pytest.mark.spec("DIF-1")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ('{"omn": {"schema": 1}, "envi', "is not a run that omn wrote: it is not JSON: Unterminated string"),
        ("[1, 2]", "is not a run that omn wrote: a run is an object, not list"),
        ('{"traceEvents": []}', "is not a run that omn wrote: a run has no field 'omn'"),
        (json.dumps({**make_profile({}), "omn": {"schema": 2}}), "its schema is 2, and this omn reads 1"),
        (json.dumps({**make_profile({}), "repeats": [{}]}), "repeat 1 has no field 'omn'"),
        (json.dumps({**make_profile({}), "repeats": 7}), "its field 'repeats' is no list"),
        (json.dumps({**make_profile({}), "window": {}}), "'closed_ns' of it cannot be read"),
    ],
)
def test_a_place_that_holds_no_run_is_one_sentence(omn: Any, tmp_path: Path, content: str | None, said: str) -> None:
    """Nothing there, a torn file, another tool's, another schema: exit 2, one line, no traceback, nothing printed."""
    write_plain_run(tmp_path / "a", make_profile({(name("alpha"),): 100}))
    if content is not None:
        (tmp_path / "b").write_text(content)
    ran = omn("diff", "a", "b")
    assert (ran.code, ran.stdout) == (2, b"")
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.spec("DIF-1")
def test_what_cannot_be_compared_is_named(omn: Any, tmp_path: Path) -> None:
    """Two questions: exit 2 with the reason and what to do; a format nobody knows: before anything is read."""
    write_plain_run(tmp_path / "a", make_profile({(name("alpha"),): 100}))
    other = make_profile({(name("alpha"),): 100})
    other["results"][0]["unit"] = "count"
    write_plain_run(tmp_path / "b", other)
    ran = omn("diff", "a", "b")
    assert ran.code == 2
    assert "cpu.profile: the unit is ns in A and count in B" in ran.stderr
    assert omn("diff", "a", "nowhere", "--format", "gif").stderr.startswith("omn: no format is called 'gif'")
    assert omn("diff", "a").code == 2


@pytest.mark.parametrize("written", ["yaml", "toml"])
def test_every_format_of_documents_has_the_comparison(omn: Any, tmp_path: Path, written: str) -> None:
    """YAML and TOML hold it too, and a format of runs alone is refused."""
    write_plain_run(tmp_path / "a", make_profile({(name("alpha"),): 100}))
    ran = omn("diff", "a", "a", "--format", written)
    assert (ran.code, ran.stderr) == (0, "")
    assert b"within one run" in ran.stdout
    refused = omn("diff", "a", "a", "--format", "ndjson")
    assert (refused.code, refused.stderr) == (2, "omn: the format ndjson holds runs alone\n")


def test_nothing_heavy_is_imported_to_compare(tmp_path: Path) -> None:
    """Neither numpy nor a collector: plain values are compared by plain arithmetic."""
    write_plain_run(tmp_path / "a", make_profile({(name("alpha"),): 100}))
    program = (
        "import sys; from omn_core.cli.entry import main; assert main(['diff', 'a', 'a']) == 0; "
        "print(sorted({'numpy', 'rich', 'ruamel.yaml', 'omn_kernel.perf'} & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stderr == "[]\n"
