"""Writing a question down: what a dump prints asks the same thing, over every source, in every format."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from ruamel.yaml import YAML

from omn_core.model.catalog import Entry

Question: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
TARGETS = {
    "pid": ("--pid", "4711,4712"),
    "tid": ("--tid", "4711"),
    "cgroup": ("--cgroup", "/a group"),
    "system": ("--system",),
    "cpu": ("--cpu", "0,1"),
    "container": ("--container", "web"),
    "dev": ("--dev", "/dev/mapper/a disk"),
    "iface": ("--iface", "pid:4711/eth0"),
    "gpu": ("--gpu", "0"),
}


def iter_questions(entry: Entry) -> Iterator[Question]:
    """Yield, for each mode and each kind of target that a backend serves together, the words that ask it."""
    for mode in entry.modes:
        emits = [emit for emit in entry.emits[mode] if emit != "stack"]
        asked = [word for emit in emits[:2] for word in ("-e", emit)]
        interval = ("--interval", "250ms") if mode == "poll" else ()
        words = (entry.id, "-m", mode, *asked, *interval, "-d", "1500ms")
        for kind, flags in {"launch": (), **TARGETS}.items():
            serving = [b for b in entry.chain if mode in entry.modes_of(b) and kind in entry.targets_of(b)]
            shared = [key for key in entry.keys if all(key in entry.keys_of(backend) for backend in serving)]
            keys = ("--keys", ",".join(shared)) if shared else ()
            program = ("--", "a program", "--flag", "-x", "it's", "") if kind == "launch" else ()
            if serving:
                yield (*words, *keys, *flags), program


@pytest.mark.spec("REQ-2", "REQ-3")
def test_every_source_reads_back_from_its_dump_in_every_format(
    omn: Any, catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every source and mode, of targets in turn: the dumped session dumps itself, and asks the same request.

    The formats take turns too; the catalog is read once for all of them.
    """
    monkeypatch.setattr("omn_core.catalog.load.load_catalog", lambda *_: catalog)
    every = [q for entry in catalog.entries.values() for q in iter_questions(entry)]
    questions = [asked for _, modes in itertools.groupby(every, find_mode) for asked in take_turns(list(modes))]
    assert {words[0] for words, _ in questions} == set(catalog.entries)
    assert {find_mode(asked) for asked in questions} == {find_mode(asked) for asked in every}
    for (words, program), form in zip(questions, itertools.cycle(("yaml", "json", "toml")), strict=False):
        session = run_in_process(tmp_path, *words, "--dump-session", "--no-resolve", *program)
        request = plain_request(run_in_process(tmp_path, *words, "--dump-request", "--no-resolve", *program))
        path = tmp_path / f"session.{form}"
        path.write_text(convert(session, form))
        again = plain_request(run_in_process(tmp_path, "-f", str(path), "--dump-request", "--no-resolve"))
        assert again == request, (words, form)
        assert run_in_process(tmp_path, "-f", str(path), "--dump-session", "--no-resolve") == session


def find_mode(asked: Question) -> tuple[str, ...]:
    """Return the source and the mode that words ask."""
    return asked[0][:3]


def take_turns(questions: Sequence[Question]) -> Sequence[Question]:
    """Take two of a source's questions in one mode, others of them for other sources."""
    first = len(questions[0][0][0]) % len(questions)
    return [questions[first], questions[first - 1]] if len(questions) > 1 else questions


def plain_request(text: str) -> Any:
    return json.loads(text)


def convert(session: str, form: str) -> str:
    """Write the YAML of a session in another format, through other people's libraries."""
    import tomli_w

    plain = YAML(typ="safe", pure=True).load(io.StringIO(session))
    return {"yaml": session, "json": json.dumps(plain), "toml": tomli_w.dumps(plain)}[form]


def run_in_process(tmp_path: Path, *arguments: str) -> str:
    """Run the command line in this process, for the many small questions of one test, and return what it wrote."""
    import contextlib

    from omn_core.cli.app import run_command

    raw = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(raw, write_through=True)) as stream:
        code = run_command(list(arguments))
        stream.flush()
    assert code == 0, arguments
    return raw.getvalue().decode()


@pytest.mark.spec("REQ-2")
def test_a_dumped_session_runs_and_measures_the_same_thing(omn: Any) -> None:
    """What --dump-session prints, read from standard input, gives the same result as the command line's words."""
    words = ("mem.rss", "--interval", "50ms", "-e", "summary", "-e", "timeline", "--keys", "task")
    program = ("--", "sleep", "0.2")
    dumped = omn(*words, "--dump-session", *program)
    assert dumped.code == 0, dumped.stderr
    direct = omn(*words, "--format", "json", *program)
    through = omn("-f", "-", "--format", "json", stdin=dumped.stdout)
    assert through.code == direct.code == 0, through.stderr
    asked = [dict(ran.result["request"], target=None) for ran in (direct, through)]
    assert asked[0] == asked[1]
    assert through.document["program"]["argv"] == ["sleep", "0.2"]
    assert through.result["events_seen"] >= 3


@pytest.mark.spec("REQ-2")
def test_a_dump_in_each_document_format_is_that_format(omn: Any) -> None:
    """--format chooses how a session is written down; a format that holds runs alone is refused."""
    words = ("mem.rss", "--pid", "1", "--dump-session", "--no-resolve", "--format")
    assert tomllib.loads(omn(*words, "toml").stdout.decode())["requests"][0]["source"] == "mem.rss"
    assert omn(*words, "json").document["requests"][0]["target"] == {"pid": [1]}
    refused = omn(*words, "ndjson")
    assert (refused.code, "holds runs alone" in refused.stderr) == (2, True)


@pytest.mark.spec("RES-8", "RES-6")
def test_what_the_run_would_refuse_the_dump_refuses_with_the_same_sentence(omn: Any) -> None:
    """--dump-resolved ends as the run would, word for word; where the run serves it shows the chain and the machine."""
    gone = ("mem.rss", "--backend", "force:fs:proc:statm")
    run = omn(*gone, "--", "true", OMN_SYSROOT="/nowhere")
    dump = omn(*gone, "--dump-resolved", "--", "true", OMN_SYSROOT="/nowhere")
    assert run.code == dump.code == 1
    assert run.stderr == dump.stderr
    served = omn("mem.rss", "--dump-resolved", "--format", "json", "--", "true").document
    assert served["requests"][0]["backend"] == "fs:proc:statm"
    assert served["requests"][0]["chain"][0]["state"] == "selected"
    assert served["environment"]["kernel"]
    assert {"omn", "omn-kernel", "omn-mem"} <= set(served["plugins"])


@pytest.mark.spec("REQ-5", "REQ-2")
def test_a_session_is_written_and_validated_where_it_cannot_run(omn: Any) -> None:
    """--no-resolve and validate ask nothing of this machine; a dump without it is refused as the run would be."""
    words = ("mem.rss", "--pid", "4711")
    assert omn(*words, "--dump-session", "--no-resolve", OMN_SYSROOT="/nowhere").code == 0
    assert omn("validate", *words, OMN_SYSROOT="/nowhere").code == 0
    assert omn(*words, "--dump-session", OMN_SYSROOT="/nowhere").code == 1


@pytest.mark.spec("REQ-1")
def test_the_word_trace_is_optional(omn: Any) -> None:
    """`omn trace SOURCE` and `omn SOURCE` ask one thing."""
    words = ("mem.rss", "--pid", "1", "--dump-request", "--no-resolve")
    assert omn("trace", *words).stdout == omn(*words).stdout


@pytest.mark.spec("RUN-8", "SEC-3")
def test_a_runs_folder_holds_the_document_and_a_session_that_asks_it_again(omn: Any, tmp_path: Path) -> None:
    """`-o DIR` writes five private files; results.json is the document, session.yaml runs."""
    folder = tmp_path / "run"
    ran = omn("mem.rss", "--interval", "50ms", "-o", str(folder), "--format", "json", "--", "sleep", "0.2")
    assert ran.code == 0, ran.stderr
    names = {"results.json", "cost.json", "session.yaml", "resolved.json", "view.json"}
    assert {path.name for path in folder.iterdir()} == names
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert json.loads((folder / "results.json").read_text()) == ran.document
    assert json.loads((folder / "cost.json").read_text()) == ran.document["cost"]
    again = omn("-f", str(folder / "session.yaml"), "--format", "json")
    assert again.code == 0, again.stderr
    assert again.result["request"]["source"] == "mem.rss"


@pytest.mark.spec("RUN-11")
def test_the_programs_own_output_can_go_to_files(omn: Any, tmp_path: Path) -> None:
    """With both files named, standard output holds the document alone."""
    out, err = tmp_path / "out", tmp_path / "err"
    shell = shutil.which("sh")
    assert shell is not None
    ran = omn(
        "mem.rss",
        "--program-stdout",
        str(out),
        "--program-stderr",
        str(err),
        "--format",
        "json",
        "--",
        shell,
        "-c",
        "echo to stdout; echo to stderr >&2",
    )
    assert ran.document["program"]["exit"] == {"code": 0}
    assert (out.read_text(), err.read_text()) == ("to stdout\n", "to stderr\n")
    assert "to stderr" not in ran.stderr


@pytest.mark.spec("RUN-11", "REQ-15")
def test_the_variable_stands_in_for_the_option_where_a_program_is_launched(omn: Any, tmp_path: Path) -> None:
    """OMN_PROGRAM_STDERR names the file as --program-stderr does, and asks nothing of a run without a program."""
    err, other = tmp_path / "err", tmp_path / "other"
    words = ("mem.rss", "--format", "json", "--program-stderr", str(other), "--", "sh", "-c", "echo said >&2")
    assert omn(*words[:3], *words[5:], OMN_PROGRAM_STDERR=str(err)).document["program"]["exit"] == {"code": 0}
    assert err.read_text() == "said\n"
    assert omn(*words, OMN_PROGRAM_STDERR=str(tmp_path / "none")).code == 0
    assert (other.read_text(), (tmp_path / "none").exists()) == ("said\n", False)
    attached = ("mem.rss", "--pid", str(os.getpid()), "-d", "50ms", "--format", "json")
    assert omn(*attached, OMN_PROGRAM_STDERR=str(tmp_path / "none")).result["failure"] is None
    assert omn(*attached, "--program-stderr", str(err)).code == 2


@pytest.mark.spec("PRB-7", "PLG-6")
def test_listings_have_the_shape_others_read(omn: Any) -> None:
    """`omn list` and `omn plugins` as JSON hold the contract's fields, each source once."""
    listing = omn("list", "--format", "json").document
    assert set(listing) == {"sources", "defaults", "walks"}
    for source in listing["sources"]:
        assert {
            "id",
            "family",
            "distribution",
            "title",
            "unit",
            "modes",
            "emits",
            "targets",
            "keys",
            "usable",
            "through",
            "backends",
        } <= set(source)
        for backend in source["backends"]:
            assert {"id", "state", "collected", "reason", "cost", "degrades"} <= set(backend)
            assert backend["state"] in ("available", "missing", "restricted", "unknown")
            assert backend["state"] == "available" or backend["reason"]
    identifiers = [source["id"] for source in listing["sources"]]
    assert len(identifiers) == len(set(identifiers)) >= 18
    for plugin in omn("plugins", "--format", "json").document["plugins"]:
        assert set(plugin) == {
            "name",
            "distribution",
            "version",
            "state",
            "reason",
            "sources",
            "backends",
            "requirement_classes",
            "emits",
            "formats",
            "views",
            "commands",
        }
    assert "\nDEFAULTS\n" in omn("list").stdout.decode()
    usable = omn("list", "--usable", "--format", "json").document["sources"]
    assert all(source["usable"] for source in usable)


@pytest.mark.spec("PRB-6", "RES-2", "SEC-2")
def test_every_source_answers_or_refuses_by_name_without_privileges(
    omn: Any, without_privileges: Any, sleeper: subprocess.Popen[bytes], catalog: Any
) -> None:
    """Without any capability every source either serves or says what is missing: none falls over."""
    listing = json.loads(without_privileges("list", "--format", "json").stdout)
    listed = {source["id"]: source for source in listing["sources"]}
    for source in listing["sources"]:
        for backend in source["backends"]:
            assert backend["state"] == "available" or backend["reason"], (source["id"], backend)
            assert "raised" not in (backend["reason"] or ""), (source["id"], backend)

    def ask(entry: Entry) -> None:
        words, program = next(iter_questions(entry))
        program = ("--", "true") if program else ()
        meant = {"4711,4712": str(sleeper.pid), "1500ms": "50ms", "250ms": "20ms"}
        words = tuple(meant.get(word, word) for word in words)
        ran = without_privileges(*words, "--format", "json", *program)
        stderr = ran.stderr.decode()
        assert "Traceback" not in stderr, (words, stderr)
        collected = any(backend["collected"] for backend in listed[entry.id]["backends"])
        assert ran.returncode in ((0, 1) if collected else (3, 1)), (words, stderr)

    with ThreadPoolExecutor(2) as pool:  # most of each is a program's start
        list(pool.map(ask, catalog.entries.values()))
