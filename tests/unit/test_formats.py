"""Every format of a run, read back by a parser."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tomllib
from typing import Any

import attrs
import numpy as np
import pytest
import ruamel.yaml
from hypothesis import given
from hypothesis import strategies as st
from shapes import WINDOW, make_batch, make_document, make_result

from omn_core.format.as_json import JSON
from omn_core.format.as_ndjson import NDJSON
from omn_core.format.as_text import TEXT
from omn_core.format.as_toml import TOML
from omn_core.format.as_yaml import YAML
from omn_core.format.plain import compute_plain
from omn_core.model.batch import Batch, Column
from omn_core.model.losses import Drain, Losses
from omn_core.model.request import EmitSpec
from omn_core.model.result import Cost, Document, FilterAccount, SeriesResult
from omn_core.model.rows import EmitRow
from omn_core.model.style import TextStyle
from omn_core.model.watched import Adopted
from omn_core.names import compute_width, escape_bytes

STYLE = TextStyle()
NASTY = (
    ") R 1 (",
    "a;b c",
    "new\nline\r\ttab",
    "\x1b[31mred\x1b]0;title\x07",
    "nul\0byte",
    b"caf\xe9\xff".decode("utf-8", "surrogateescape"),
    "quote\"\\back'slash",
    "\u6f22\u5b57 \U0001f600 \u2028 \u0085 \x7f \x9b31m \ufeff \u202e",
    "x" * 65_536,
    "true",
    "null",
    "1e5",
    "- a: b #c",
    "key: value",
    "{}",
    "",
    " lead and trail ",
    "=",
    "0o17",
    "12:30:45",
)
LOSSES = Losses(dropped=3, reasons=("the ring was full",), drains=(Drain(11, 3),))


def render(encoder: Any, document: Document, style: TextStyle = STYLE) -> str:
    stream = io.BytesIO()
    encoder.write(document, stream, style)
    return stream.getvalue().decode()


def render_plain(encoder: Any, value: Any) -> str:
    stream = io.BytesIO()
    encoder.write_plain(value, stream, STYLE)
    return stream.getvalue().decode()


def read_yaml(text: str) -> Any:
    return ruamel.yaml.YAML(typ="safe", pure=True).load(text)


def make_nasty() -> Document:
    """Make a run in which every text that a stranger chooses is a nasty one."""
    values = [*range(len(NASTY) - 1), None]
    batch = make_batch(values, keys={"task": list(range(len(NASTY)))}, comm=NASTY, share=[0.5] * len(NASTY))
    batch = attrs.evolve(batch, ts_err=np.full(len(NASTY), 5), weight=np.full(len(NASTY), 2))
    ranked = make_result(batch, ["topk:99@comm", "hist", "timeline", "raw"], mode="trace", losses=LOSSES)
    keyed = make_result(
        batch, ["summary", "count"], keys=["comm"], filter=FilterAccount(NASTY[3], "userspace", 2, 1, ("x",))
    )
    return make_document(
        ranked,
        keyed,
        adopted=(Adopted(9, NASTY[2], True),),
        notes=NASTY[:3],
        environment={"kernel": NASTY[5], "cpus": 2},
    )


def expected_raw(document: Document) -> list[dict[str, Any]]:
    return [
        {
            "ts_ns": WINDOW.opened_ns + place,
            "ts_err_ns": 5,
            "source": "mem.test",
            "backend": "fs:proc",
            "scope": "process",
            "key": {"task": place},
            "attrs": {"value": place, "comm": escape_bytes(name), "share": 0.5}
            if place < len(NASTY) - 1
            else {"comm": escape_bytes(name), "share": 0.5},
            "weight": 2,
        }
        for place, name in enumerate(NASTY)
    ]


def with_raw(document: Document) -> dict[str, Any]:
    plain = compute_plain(document)
    plain["results"][0]["raw"] = expected_raw(document)
    return plain


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


@pytest.mark.spec("FMT-1", "FMT-2", "EVT-1", "EVT-5")
def test_json_is_read_back_whole() -> None:
    """Any JSON parser reads it, in ASCII, and every name, event and answer is there; an absent field is absent."""
    document = make_nasty()
    text = render(JSON, document)
    assert text.isascii()
    assert "\x1b" not in text
    assert json.loads(text, parse_constant=pytest.fail) == with_raw(document)


@pytest.mark.spec("FMT-1", "FMT-2")
def test_yaml_is_read_back_by_a_safe_loader() -> None:
    """ruamel's safe YAML 1.2 loader reads the values that JSON holds; nothing in it disturbs a terminal."""
    document = make_nasty()
    text = render(YAML, document)
    assert read_yaml(text) == with_raw(document)
    assert all(part.isprintable() or part in "\n\u202e\xad" for part in text)


@pytest.mark.spec("FMT-1", "FMT-2")
def test_toml_is_read_back_without_nulls() -> None:
    """tomllib reads what JSON holds, less what is null, which TOML cannot say."""
    document = make_nasty()
    assert tomllib.loads(render(TOML, document)) == without_nulls(with_raw(document))


@pytest.mark.spec("FMT-1", "FMT-2")
def test_ndjson_lines_say_their_type() -> None:
    """A line for each event and each answer, and the run last, without what the others said."""
    document = make_nasty()
    lines = [json.loads(line) for line in render(NDJSON, document).splitlines()]
    plain = compute_plain(document)
    events = [line for line in lines if line["type"] == "event"]
    assert events == [{"type": "event", "result": 0, **row} for row in expected_raw(document)]
    answers = [line for line in lines if line["type"] == "answer"]
    assert [(line["result"], line["key"], line["emit"], line["answer"]) for line in answers] == [
        (place, series["key"], emit, found)
        for place, result in enumerate(plain["results"])
        for series in result["series"]
        for emit, found in series["emits"].items()
    ]
    for result in plain["results"]:
        del result["series"], result["raw"]
    assert lines[-1] == {"type": "run", **plain}
    assert len(lines) == len(events) + len(answers) + 1


@pytest.mark.spec("FMT-1")
@pytest.mark.parametrize("count", [0, 1, 16384, 16385])
def test_raw_events_are_a_list_whatever_their_number(count: int) -> None:
    """Chunks meet without a seam, and no event at all is an empty list, not null."""
    document = make_document(make_result(make_batch(list(range(count))), ["raw"], mode="trace"))
    raw = json.loads(render(JSON, document))["results"][0]["raw"]
    assert [row["attrs"]["value"] for row in raw] == list(range(count))
    yaml, toml = render(YAML, document), render(TOML, document)
    assert yaml.count("\n  - {ts_ns:") == toml.count("[[results.raw]]") == count
    if count < 2:
        assert len(read_yaml(yaml)["results"][0]["raw"]) == len(tomllib.loads(toml)["results"][0]["raw"]) == count


def test_two_results_keep_their_own_raw_events() -> None:
    """TOML's tables of the second result do not end up under the first."""
    document = make_document(*(make_result(make_batch([value]), ["raw"], mode="trace") for value in (1, 2)))
    for read in (tomllib.loads(render(TOML, document)), read_yaml(render(YAML, document))):
        assert [result["raw"][0]["attrs"]["value"] for result in read["results"]] == [1, 2]


def test_values_no_format_can_spell_are_absent() -> None:
    """A float that is not finite is no measurement; an integer past 64 bits is digits where TOML needs it."""
    batch = Batch(
        np.arange(2),
        attributes={"value": Column(np.array([np.nan, 2.0])), "big": Column(np.full(2, 1 << 63, np.uint64))},
    )
    document = make_document(make_result(batch, ["raw", "summary"], mode="trace", fields={"huge": 1 << 63}))
    plain = json.loads(render(JSON, document))["results"][0]
    assert [row["attrs"] for row in plain["raw"]] == [{"big": 1 << 63}, {"value": 2.0, "big": 1 << 63}]
    toml = tomllib.loads(render(TOML, document))["results"][0]
    assert toml["raw"][0]["attrs"]["big"] == toml["fields"]["huge"] == str(1 << 63)


def test_a_document_has_the_blocks_that_others_read() -> None:
    """The names and nesting of a run, with what does not apply as null or empty."""
    document = make_document(
        make_result(make_batch([1, 2]), losses=LOSSES, fields={"seen": 2}, target={"comm": "prog"})
    )
    plain = json.loads(render(JSON, document))
    assert set(plain) >= {
        "omn",
        "environment",
        "window",
        "program",
        "results",
        "joins",
        "decompositions",
        "record",
        "adopted",
        "cost",
    }
    assert plain["omn"]["schema"] == 1
    assert plain["omn"]["plugins"] == {"omn": "0.1.0"}
    assert plain["window"] == {"clock": "CLOCK_MONOTONIC", "opened_ns": WINDOW.opened_ns, "closed_ns": WINDOW.closed_ns}
    assert plain["program"] == {
        "argv": ["prog", "a b"],
        "pid": 7,
        "exit": {"code": 3},
        "lifetime_ns": 2_000_000_000,
        "cpu_ns": 1_000_000_000,
        "own_cpu_ns": 900_000_000,
    }
    assert (plain["joins"], plain["decompositions"], plain["record"], plain["adopted"]) == ([], [], None, [])
    assert plain["cost"] == {
        "tool": {"window_cpu_ns": 20_000_000, "before_ns": 200_000_000, "after_ns": 10_000_000, "one_time_cpu_ns": 0},
        "in_target": {"cpu_ns": 0, "left_out": 0, "unknown": []},
        "target_cpu_ns": 2_000_000_000,
        "percent": 1.0,
        "own_percent": 1.0,
        "budget": None,
    }
    (result,) = plain["results"]
    assert result["request"]["target"] == {"pid": [7], "comm": "prog"}
    assert (result["request"]["source"], result["request"]["mode"], result["request"]["emits"]) == (
        "mem.test",
        "poll",
        ["summary"],
    )
    assert [(link["backend"], link["state"]) for link in result["chain"]] == [
        ("bpf:tp", "missing"),
        ("fs:proc", "selected"),
    ]
    assert result["losses"]["drains"] == [{"ts_ns": 11, "dropped": 3}]
    assert (result["losses"]["dropped"], result["losses"]["reasons"]) == (3, ["the ring was full"])
    assert (result["raw"], result["repeat"], result["ts_err_ns"], result["filter"]) == (None, None, None, None)
    assert result["series"][0]["emits"]["summary"]["lower_bound"] is True


@pytest.mark.spec("RUN-8")
def test_blocks_of_plugins_stand_at_the_top() -> None:
    """A join's block takes its place, a budget's stands in the cost."""
    document = make_document(make_result(make_batch([1])), extras={"joins": [{"id": "j"}], "budget": {"percent": 2}})
    plain = compute_plain(document)
    assert plain["joins"] == [{"id": "j"}]
    assert plain["cost"]["budget"] == {"percent": 2}
    assert "budget" not in plain


SHORT_AND_NASTY = [name for name in NASTY if len(name) < 100 and name == escape_bytes(name)]
TEXTS = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.sampled_from(SHORT_AND_NASTY))
TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda parts: st.one_of(st.lists(parts, max_size=4), st.dictionaries(TEXTS, parts, max_size=4)),
    max_leaves=12,
)


@pytest.mark.spec("FMT-1", "FMT-2")
@given(TREES)
def test_plain_values_survive_yaml(tree: Any) -> None:
    """A request, a session or a listing in YAML loads as what it was, types included."""
    loaded = read_yaml(render_plain(YAML, tree))
    assert loaded == tree
    assert json.dumps(loaded) == json.dumps(tree)


@pytest.mark.spec("FMT-1", "FMT-2")
@given(TREES)
def test_plain_values_survive_json_and_text(tree: Any) -> None:
    """The same in JSON; the text format prints what YAML reads."""
    assert json.loads(render_plain(JSON, tree)) == tree
    assert read_yaml(render_plain(TEXT, tree)) == tree


@given(
    st.dictionaries(
        TEXTS, st.one_of(TEXTS, st.integers(-(1 << 63), (1 << 63) - 1), st.lists(TEXTS, max_size=3)), max_size=5
    )
)
def test_plain_values_survive_toml(tree: dict[str, Any]) -> None:
    """A mapping is a TOML document as it is, a list stands under `entries`."""
    assert tomllib.loads(render_plain(TOML, tree)) == tree
    assert tomllib.loads(render_plain(TOML, [tree, None])) == {"entries": [tree]}


def test_a_session_in_yaml_reads_as_a_person_would_write_it() -> None:
    """Block style, short lists on their line, quotes only where YAML needs them."""
    session = {
        "requests": [{"source": "mem.rss", "emits": ["summary", "hist"], "target": {"launch": ["sh", "-c", "a: b"]}}]
    }
    assert render_plain(YAML, session) == (
        'requests:\n  - source: mem.rss\n    emits: [summary, hist]\n    target:\n      launch: [sh, "-c", "a: b"]\n'
    )


@pytest.mark.spec("FMT-3")
@pytest.mark.parametrize("width", [80, 132])
def test_text_fits_its_width_and_is_harmless(width: int) -> None:
    """No line is wider than the terminal, and no name's bytes reach it as commands."""
    text = render(TEXT, make_nasty(), TextStyle(width))
    assert all(compute_width(line) <= width for line in text.splitlines())
    assert all(part.isprintable() or part == "\n" for part in text)
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.spec("FMT-3")
@pytest.mark.parametrize("emit", ["summary", "hist", "topk:9@comm", "timeline", "hist@comm", "summary@comm", "raw"])
def test_text_fits_however_many_keys_divide_it(emit: str) -> None:
    """Three keys of long names and eight figures share eighty columns."""
    names = [name for name in NASTY if name]
    keys = {"cgroup": names, "file": names[::-1], "object": names}
    batch = make_batch([10**9 + place for place in range(len(names))], keys=keys, comm=names)
    result = make_result(batch, [emit], keys=tuple(keys), mode="trace", losses=LOSSES)
    text = render(TEXT, make_document(result))
    assert all(compute_width(line) <= 80 for line in text.splitlines())


@pytest.mark.spec("FMT-3")
def test_text_says_things_in_their_order() -> None:
    """Asked, chosen, defaulted, numbers, lost, degraded, cost."""
    result = make_result(
        make_batch([1024, 4096]),
        losses=LOSSES,
        degraded=("kernel side is not seen",),
        unverified=("cap:perfmon",),
        caveats=("shared pages count whole",),
        facts=("read by statm",),
        stopped_because="the target ended",
        failure="the reader died",
    )
    text = render(TEXT, make_document(result))
    places = [
        "mem.test: summary; poll every 1 s, of pid 7",
        "through    fs:proc, cost free",
        "passed     bpf:tp missing: this kernel has no BTF",
        "default    mode poll",
        "unverified cap:perfmon",
        "window     2 s, 2 events",
        ">= 2",
        "lost       3 events dropped; the ring was full; figures marked >= are lower",
        "degraded   kernel side is not seen",
        "caveat     shared pages count whole",
        "note       read by statm",
        "stopped    the target ended",
        "failed     the reader died",
        "program    prog 'a b' (pid 7) exited with 3 after 2 s, having used 1 s of cpu",
        "cost       omn used 20 ms of cpu in the window, 1 % of the target's own 2 s;",
    ]
    found = [text.find(place) for place in places]
    assert -1 not in found, places[found.index(-1)]
    assert found == sorted(found)


@pytest.mark.spec("FMT-3")
def test_text_uses_the_width_it_has() -> None:
    """What 80 columns cannot hold is shown where there are more, and bars grow."""
    result = make_result(make_batch([1000, 2_000_000, 2_000_000]), ["summary", "hist"], keys=["comm"], mode="trace")
    narrow, wide = (render(TEXT, make_document(result), TextStyle(width)) for width in (80, 120))
    assert "a wider terminal also shows" in narrow
    assert "a wider terminal also shows" not in wide
    assert max(map(len, re.findall("#+", wide))) > max(map(len, re.findall("#+", narrow)))


def test_text_says_what_is_not_known() -> None:
    """A cost nobody accounts for and an exit nobody could read are said, not left out."""
    document = make_document(
        make_result(Batch.empty()),
        cost=Cost(5, 0, 0, in_target_ns=None, in_target_unknown=("mem.test",)),
        extras={"joins": [1]},
    )
    assert document.program is not None
    unread = attrs.evolve(document, program=attrs.evolve(document.program, exit=None, cpu_ns=None))
    text = " ".join(render(TEXT, unread).split())
    assert "what was spent inside the target is not known" in text
    assert "nothing accounts for what mem.test spent there" in text
    assert "ended with a status that could not be read" in text
    assert "also joins, in every format but this one" in text
    signalled = attrs.evolve(document, program=attrs.evolve(document.program, exit={"signal": "SIGKILL"}))
    assert "was killed by SIGKILL" in render(TEXT, signalled)
    assert "lost nothing degraded nothing" in text


@pytest.mark.spec("EMT-4")
@pytest.mark.parametrize("shape", [{}, {"of": ["values"]}], ids=["figures", "shaped"])
def test_text_renders_a_strangers_emit_with_its_own_object(shape: dict[str, Any]) -> None:
    """The document names each emit's row, whatever the answer looks like; one without a row is shown as it stands."""
    result = make_result(make_batch([1, 2]), ["topk"], mode="trace")
    answered = SeriesResult({}, {"loud": {"lower_bound": False, "loudest": 2, **shape}})
    resolved = attrs.evolve(result.resolved, emits=(EmitSpec("loud"),))
    loud = attrs.evolve(result, resolved=resolved, series=(answered,))
    known = make_document(loud, emits={"loud": EmitRow("loud", "strangers:LOUD")})
    assert "the loudest was 2 bytes" in render(TEXT, known)
    mute = render(TEXT, make_document(loud, emits={"loud": EmitRow("loud", "strangers:MUTE")}))
    assert "(render raised ValueError: no words) {" in mute
    assert "'loudest': 2" in mute
    unknown = render(TEXT, make_document(loud))
    assert "the loudest was" not in unknown
    assert re.search(r"'loudest': 2|loudest\n +2 B", unknown)


def test_text_colours_only_where_it_may() -> None:
    """NO_COLOR and pipes get none: the style says so."""
    document = make_document(make_result(make_batch([1]), losses=LOSSES))
    assert "\x1b" not in render(TEXT, document, TextStyle(80, colour=False))
    assert "\x1b[33m" in render(TEXT, document, TextStyle(80, colour=True))


@pytest.mark.spec("EVT-3", "FMT-3")
def test_text_says_which_value_was_asked_for() -> None:
    """A value that is not the source's own is named with its unit, and so is a request by its id."""
    result = make_result(make_batch([1], pages=[7]), value="pages", unit="pages")
    named = attrs.evolve(result.resolved, request=attrs.evolve(result.resolved.request, id="mine"))
    text = render(TEXT, make_document(attrs.evolve(result, resolved=named)))
    assert text.startswith("mine = mem.test: summary; poll every 1 s, of pid 7, measuring pages in pages\n")
    assert "7 pages" in text


@pytest.mark.parametrize("name", ["as_text:TEXT", "as_json:JSON", "as_yaml:YAML", "as_toml:TOML"])
def test_writing_plain_values_does_not_load_numpy(name: str) -> None:
    """A listing is printed by a program that has just started: what a run needs is not loaded for it."""
    module, _, encoder = name.partition(":")
    program = (
        f"import io, sys; from omn_core.format.{module} import {encoder}; from omn_core.model.style import TextStyle; "
        f"{encoder}.write_plain({{'sources': [1]}}, io.BytesIO(), TextStyle()); sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
