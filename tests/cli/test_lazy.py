"""A family's name where a source is expected: what it asks, what it answers, and every refusal's sentence."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from omn_core.catalog.known import read_known
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry
from omn_core.resolve.fit import Fit

GROWING = "import time; x = bytearray(64 << 20); time.sleep(0.5)"  # held over dozens of readings
TARGETS = {"launch": ("--", "sleep", "0.05"), "system": ("--system", "-d", "50ms")}


def commands_of(stderr: str) -> list[str]:
    """Return the long forms that were printed."""
    return [line.strip() for line in stderr.splitlines() if line.startswith("  omn ")]


@pytest.mark.spec("REQ-12", "FMT-3")
def test_a_launched_program_is_measured_by_the_familys_name(omn: Any) -> None:
    """`omn mem -- PROGRAM` answers with memory and faults; the long forms come first, on stderr, as does the rest."""
    ran = omn("mem", "--interval", "10ms", "--format", "json", "--", "python3", "-c", GROWING)
    assert ran.code == 0
    document = ran.document
    by_source = {result["request"]["source"]: result for result in document["results"]}
    assert list(by_source) == ["mem.rss", "mem.faults"]
    assert by_source["mem.rss"]["series"][0]["emits"]["summary"]["max"] >= 64 << 20
    # The allocation takes at least one fault for each of the 2 MiB pages that it could be made of.
    assert by_source["mem.faults"]["series"][0]["emits"]["rate"]["total"] >= 32
    composed = document["composed"]
    assert (composed["family"], composed["band"], composed["refused"]) == ("mem", "low", [])
    assert ran.stderr.startswith("mem, at cost low, asks\n  omn mem.rss ")
    assert commands_of(ran.stderr) == composed["commands"]
    assert "  not mem.meminfo: the figures are the machine's; ask mem.rss\n" in ran.stderr
    assert {one["source"] for one in composed["unserved"]} == {"mem.meminfo", "mem.cgroup", "mem.pressure"}
    words = shlex.split(composed["commands"][0])
    alone = omn(*words[1 : words.index("--")], "--format", "json", *words[words.index("--") :])
    requests = [result["request"] for result in (alone.result, by_source["mem.rss"])]
    for request in requests:
        del request["target"]["pid"]  # each run's own
    assert requests[0] == requests[1]
    assert alone.document["composed"] is None


@pytest.mark.spec("REQ-12")
def test_the_answer_is_the_same_as_text(omn: Any) -> None:
    """The text answers each request under its own heading; nothing of the composition is on standard output."""
    ran = omn("mem", "--", "sleep", "0.05")
    assert ran.code == 0
    text = ran.stdout.decode()
    assert [line.partition(":")[0] for line in text.splitlines() if line.startswith("mem.")] == [
        "mem.rss",
        "mem.faults",
    ]
    assert "at cost low" not in text
    assert omn("trace", "mem", "--", "true").code == 0


@pytest.mark.spec("REQ-12")
def test_every_default_answers_on_every_target_it_serves(
    omn: Any, registry: Registry, catalog: Catalog, sleeper: subprocess.Popen[bytes]
) -> None:
    """For each family, band and kind: every request that serves it is answered, or the machine's reason is said."""
    targets = {**TARGETS, "pid": ("--pid", str(sleeper.pid), "-d", "50ms")}
    shipped = [one for one in catalog.defaults.values() if read_known().find_family(one.family) is not None]
    assert {"cpu", "io", "mem", "proc"} <= {default.family for default in shipped}
    for default in shipped:
        for band, requests in default.bands.items():
            kinds = Fit(catalog, registry, band).list_kinds(requests)
            assert kinds, (default.family, band)
            for kind in set(kinds) & set(targets):
                words = (default.family, "--cost", band, "--format", "json", *targets[kind])
                ran = omn(*words)
                is_everywhere = default.family in ("cpu", "io", "mem", "proc")
                if ran.code == 1 and not is_everywhere:
                    assert "cannot serve" in ran.stderr, words
                    continue
                assert ran.code == 0, (words, ran.stderr)
                composed = ran.document["composed"]
                printed = commands_of(ran.stderr)
                assert [one for one in printed if one in composed["commands"]] == composed["commands"], words
                assert len(printed) == len(composed["commands"]) + len(composed["refused"]), words
                assert not (is_everywhere and composed["refused"]), words
                assert [result["request"]["source"] for result in ran.document["results"]] == [
                    shlex.split(command)[1] for command in composed["commands"]
                ]
                assert all(result["failure"] is None for result in ran.document["results"])


@pytest.mark.spec("REQ-14", "REQ-15")
def test_a_program_beside_the_machine_sets_the_window_alone(omn: Any) -> None:
    """`omn io --system -- PROGRAM` measures the machine while it runs; an interval is that of every poll."""
    ran = omn("io", "--system", "--interval", "20ms", "--format", "json", "--", "sleep", "0.1")
    assert {result["scope"] for result in ran.document["results"]} == {"system"}
    assert ran.document["program"]["exit"] == {"code": 0}
    polled = [
        result["request"]["interval_ns"] for result in ran.document["results"] if result["request"]["mode"] == "poll"
    ]
    assert polled
    assert set(polled) == {20_000_000}
    assert all(command.endswith(" --system -- sleep 0.1") for command in ran.document["composed"]["commands"])


REFUSALS = [
    (("mem",), 2, "nothing says what mem is to be measured of"),
    (("mem",), 2, "name one of -- PROGRAM, --pid, --tid, --cgroup, --container, --system"),
    (("mem", "--system"), 2, "nothing ends this run: --system does not end by itself"),
    (("mem", "--iface", "lo", "-d", "1s"), 2, "nothing that mem asks at cost low serves the target --iface lo"),
    (("cpu", "--cost", "cheap", "--", "true"), 2, "no cost band is called 'cheap'"),
    (("mem", "-e", "hist", "--", "true"), 2, "--emit belongs to one request, and 'mem' is a family"),
    (("mem", "-m", "poll", "--", "true"), 2, "--mode belongs to one request"),
    (("mem", "--keys", "comm", "--", "true"), 2, "--keys belongs to one request"),
    (("mem", "--filter", "value > 1", "--", "true"), 2, "--filter belongs to one request"),
    (("mem", "--value", "faults", "--", "true"), 2, "--value belongs to one request"),
    (("mem", "--backend", "force:fs:proc:statm", "--", "true"), 2, "--backend belongs to one request"),
    (("mem", "--hz", "97", "--", "true"), 2, "--hz belongs to one request"),
    (("mem", "--stack", "fp", "--", "true"), 2, "'omn help mem' has the long form of each"),
    (("runtime", "--", "true"), 2, "'runtime' is a family without a default: a program's functions are timed where"),
    (("memm", "--", "true"), 2, "no source and no family is called 'memm'"),
    (("memm", "--", "true"), 2, "did you mean 'mem'?"),
    (("mem", "-f", "session.yaml"), 2, "are two questions"),
    (("mem", "--pid", "1", "--system"), 2, "are two targets"),
    (("mem", "--pid", "999999999999"), 1, "there is no process 999999999999"),
]


@pytest.mark.spec("REQ-9", "REQ-12", "REQ-14", "REQ-16")
@pytest.mark.parametrize(("arguments", "code", "said"), REFUSALS)
def test_a_familys_refusal_has_its_code_and_sentence(
    omn: Any, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """What cannot be composed is refused in one sentence, with what would mend it."""
    ran = omn(*arguments)
    assert (ran.code, said in ran.stderr) == (code, True), ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == b""


@pytest.mark.spec("REQ-12", "REQ-16")
def test_a_family_of_a_folder_falls_refuses_and_says_what_serves(omn: Any, catalog: Any, tmp_path: Path) -> None:
    """A default of a catalog folder: a band it lacks, a program it does not serve, and a reason for having none."""
    printed = omn("catalog", "cpu.load").stdout.decode()
    asked = "[{source: cpu.load, mode: poll, emits: [summary]}]"
    path = tmp_path / "cpu.yaml"
    folder = ("--catalog", str(tmp_path))
    path.write_text(f"{printed}\n- default: cpu\n  med: {asked}\n")
    ran = omn("cpu", *folder, "--cost", "high", "-d", "50ms", "--format", "json")
    assert ran.code == 0
    assert "(cpu has no band high; med is its dearest below)" in ran.stderr
    assert "(the machine is measured, the one target that is served)" in ran.stderr
    assert ran.result["request"]["target"]["system"] is True
    ran = omn("cpu", *folder, "--cost", "low", "-d", "50ms")
    assert (ran.code, "cpu asks nothing within the band low" in ran.stderr) == (2, True)
    assert "its cheapest is --cost med" in ran.stderr
    ran = omn("cpu", *folder, "--", "sleep", "0.05")
    assert (ran.code, "serves a launched program" in ran.stderr) == (2, True)
    assert "the machine while the program runs is 'omn cpu --system -- sleep 0.05'" in ran.stderr
    path.write_text(f"{printed}\n- default: cpu\n  none: loads are of no use alone\n")
    ran = omn("cpu", *folder, "-d", "50ms")
    assert (ran.code, "'cpu' is a family without a default: loads are of no use alone" in ran.stderr) == (2, True)
    assert "its sources are cpu.load" in ran.stderr


@pytest.mark.spec("REQ-2", "REQ-12", "REQ-16")
def test_a_composed_session_is_written_down_and_read_back(omn: Any, tmp_path: Path) -> None:
    """The dump is a session of the composed requests, their target and their band; it validates and dumps itself."""
    words = ("cpu", "--cost", "low", "--pid", "1", "-d", "50ms", "--interval", "10ms")
    dumped = omn(*words, "--dump-session", "--no-resolve")
    path = tmp_path / "session.yaml"
    path.write_bytes(dumped.stdout)
    again = omn("-f", str(path), "--dump-session", "--no-resolve")
    assert again.stdout == dumped.stdout
    assert b"cost: low" in dumped.stdout
    assert omn("validate", "-f", str(path)).stdout == omn("validate", *words).stdout
    resolved = omn(*words, "--dump-resolved", "--format", "json").document
    assert resolved["composed"]["family"] == "cpu"
    assert len(resolved["requests"]) == len(resolved["composed"]["commands"]) == dumped.stdout.count(b"source: ")
    folder = tmp_path / "run"
    assert omn(*words, "-o", str(folder)).code == 0
    rerun = omn("-f", str(folder / "session.yaml"), "--format", "json").document
    assert [result["request"]["source"] for result in rerun["results"]] == ["cpu.util", "cpu.oncpu_time"]


@pytest.mark.spec("REQ-12", "PRB-6")
def test_what_this_user_may_not_read_is_left_out_and_said(without_privileges: Any, strangers_sleeper: int) -> None:
    """Of another user's process its resident set and faults are answered, its proportional set is named with why."""
    words = ("mem", "--cost", "med", "--pid", str(strangers_sleeper), "-d", "50ms")
    ran = without_privileges(*words)
    said = ran.stderr.decode()
    assert ran.returncode == 0, said
    assert "omn: left out mem.pss: " in said
    assert "smaps_rollup" in said
    text = ran.stdout.decode()
    assert "mem asks mem.pss too, which is left out here" in " ".join(text.split())
    assert "\nmem.faults: " in text
    assert "\nmem.pss: " not in text
    own = without_privileges("mem.pss", *words[3:])
    assert own.returncode == 1


@pytest.mark.spec("REQ-12", "RES-2")
def test_where_nothing_can_be_served_the_whole_is_refused(omn: Any) -> None:
    """Every gap is named once, and the machine's code is the run's."""
    ran = omn("mem", "--", "true", OMN_SYSROOT="/nowhere")
    assert ran.code == 1
    assert "2 things stand in the way" in ran.stderr
    assert "mem.rss: this machine cannot serve" in ran.stderr
    assert ran.stderr.rstrip().endswith("omn: this machine refused the request; nothing ran")


@pytest.mark.spec("REQ-16")
def test_a_cost_beside_a_source_is_its_band(omn: Any) -> None:
    """A source that only a dearer backend serves is served, and that is said."""
    ran = omn("mem.pss", "--cost", "low", "--format", "json", "--", "sleep", "0.05")
    assert ran.code == 0
    assert "omn: mem.pss is served here through fs:proc:smaps_rollup, which declares med: more than the band low" in (
        ran.stderr
    )
    assert "more than the band low" in omn("mem.pss", "--cost", "low", "--", "true").stdout.decode()
    assert "more than" not in omn("mem.pss", "--cost", "med", "--", "true").stderr


@pytest.mark.spec("PRB-7")
def test_a_listing_ends_with_the_defaults(omn: Any, catalog: Catalog) -> None:
    """Every installed family's bands with their sources, as text and as JSON; of one family, its own alone."""
    listed = omn("list", "--format", "json").document["defaults"]
    assert [default["family"] for default in listed] == list(catalog.defaults)
    for default in listed:
        bands = catalog.defaults[default["family"]].bands
        assert {band: [one["source"] for one in asked] for band, asked in default["bands"].items()} == {
            band: [one.source for one in asked] for band, asked in bands.items()
        }
    text = omn("list").stdout.decode()
    section = " ".join(text.partition("\nDEFAULTS\n")[2].split())
    assert "omn mem --cost low mem.rss, mem.faults, mem.meminfo, mem.cgroup, mem.pressure omn mem --cost med" in section
    own = omn("list", "mem", "--format", "json").document["defaults"]
    assert [default["family"] for default in own] == ["mem"]
    assert omn("list", "mem.rss", "--format", "json").document["defaults"] == own


@pytest.mark.spec("REQ-13")
def test_help_explains_a_family(omn: Any) -> None:
    """Its sources, what its name asks in each band, and how to ask it."""
    text = omn("help", "mem").stdout.decode()
    assert text.startswith("mem: a family of ")
    assert "  mem.rss Resident set size of a process" in re.sub(" {2,}(?=[A-Z])", " ", text)
    assert "  with --cost low, or no --cost\n    omn mem.rss -m poll -e summary --interval 100ms\n" in text
    assert "\n    omn mem -- ./server\n" in text
    assert all(len(line) <= 80 for line in text.splitlines())
