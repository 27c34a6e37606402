"""Session files: one model behind three formats, and every mistake at its place."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from omn_core.errors import RequestError
from omn_core.format.as_yaml import YAML
from omn_core.located import Located, LocatedError, parse_json, parse_toml, parse_yaml
from omn_core.model.request import EmitSpec, Request, RequestWindow, Session
from omn_core.model.style import TextStyle
from omn_core.model.target import Target
from omn_core.session.duration import parse_duration, render_duration
from omn_core.session.read import read_session
from omn_core.session.shape import make_plain_session, make_session

WORDS = st.text(alphabet="abcxyz_.é\n\"'# :", min_size=1, max_size=12)
DURATIONS = st.integers(1, 10**15)
TARGETS = st.one_of(
    st.lists(st.integers(1, 10**7), min_size=1, max_size=3, unique=True).map(lambda p: Target("pid", tuple(p))),
    st.lists(WORDS, min_size=1, max_size=3).map(lambda argv: Target("launch", tuple(argv))),
    WORDS.map(lambda path: Target("cgroup", path)),
    st.integers(1, 10**7).map(lambda tid: Target("tid", tid)),
    st.just(Target("system")),
)
EMITS = st.builds(
    EmitSpec,
    st.sampled_from(["summary", "topk", "hist"]),
    st.none() | st.integers(1, 99),
    st.none() | st.sampled_from(["comm", "op"]),
)
REQUESTS = st.builds(
    Request,
    source=st.sampled_from(["mem.rss", "cpu.util"]),
    mode=st.none() | st.sampled_from(["poll", "count"]),
    emits=st.lists(EMITS, max_size=3).map(tuple),
    keys=st.lists(st.sampled_from(["task", "cpu"]), max_size=2).map(tuple),
    target=st.none() | TARGETS,
    filter=st.none() | WORDS,
    value=st.none() | WORDS,
    interval_ns=st.none() | DURATIONS,
    backend=st.none() | WORDS,
    hz=st.none() | st.integers(1, 999),
    window=st.none() | st.builds(RequestWindow, DURATIONS, st.none() | DURATIONS, st.none() | WORDS),
    id=st.none() | WORDS,
)
SESSIONS = st.builds(
    Session,
    requests=st.lists(REQUESTS, min_size=1, max_size=3).map(tuple),
    launch=st.none() | st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    duration_ns=st.none() | DURATIONS,
    budget_percent=st.none() | st.floats(0.5, 50),
    repeat=st.none() | st.integers(1, 9),
    program_stderr=st.none() | WORDS,
)


def as_yaml(plain: Any) -> Located:
    stream = io.BytesIO()
    YAML.write_plain(plain, stream, TextStyle())
    return parse_yaml(stream.getvalue().decode())


@pytest.mark.spec("REQ-2", "REQ-3")
@given(SESSIONS)
def test_a_session_reads_back_equal_from_every_format(session: Session) -> None:
    """What a session is written as asks the same thing in YAML, in JSON and in TOML."""
    plain = make_plain_session(session)
    assert make_session(as_yaml(plain)) == session
    assert make_session(parse_json(json.dumps(plain))) == session
    assert make_session(parse_toml(tomli_w.dumps(plain))) == session


MISTAKES = [
    ("requests:\n- source: mem.rss\n  targt: {pid: 1}\n", 3, "there is no field 'targt' here; did you mean 'target'?"),
    ("requests:\n- source: mem.rss\n  source: mem.pss\n", 3, "'source' is written twice"),
    ("requests:\n- source: mem.rss\n  interval: soon\n", 3, "'soon' is no duration"),
    ("requests:\n- source: mem.rss\n  keys: task\n", 3, "a list belongs here, not 'task'"),
    ("requests:\n- source: mem.rss\n  hz: '99'\n", 3, "a whole number belongs here, not '99'"),
    ("requests:\n- source: mem.rss\n  target: {pid: -4}\n", 3, "target pid is a positive number, not -4"),
    ("requests:\n- source: mem.rss\n  target: {pid: 1, tid: 2}\n", 3, "a target names exactly one of"),
    ("requests:\n- source: mem.rss\n  target: {launch: sh}\n", 3, "a program is a list of strings"),
    ('requests:\n- source: mem.rss\n  emits: ["topk:x"]\n', 3, "'x' is no number of rows"),
    ("requests:\n- source: mem.rss\n\tmode: poll\n", 3, "a tab indents here; YAML is indented with spaces"),
    ("requests:\n- mem.rss\n", 2, "a mapping belongs here, not 'mem.rss'"),
    ("requests: []\n", 1, "a session asks at least one thing"),
    ("duration: 5s\n", 1, "the field 'requests' is missing"),
    ("- source: mem.rss\n", 1, "a session is a mapping with the field 'requests'"),
    ("requests: &r\n- *r\n", 1, "an alias stands inside what it names"),
    ("requests:\n- <<: {source: a}\n", 2, "merge keys (<<) are not read"),
    ("requests:\n- source: !!python/object/apply:os.system [id]\n", 2, "makes no plain value"),
    ("%YAML 1.1\n---\nrequests:\n- source: yes\n", 4, "'yes' is no bool"),
    ("", None, "a session is a mapping"),
]


@pytest.mark.spec("REQ-3", "SEC-4")
@pytest.mark.parametrize(("text", "line", "said"), MISTAKES)
def test_a_mistake_is_refused_with_its_file_line_and_reason(
    tmp_path: Path, text: str, line: int | None, said: str
) -> None:
    """Duplicate keys, unknown fields, tabs, wrong types and foreign tags each get one sentence with the place."""
    path = tmp_path / "session.yaml"
    path.write_text(text)
    with pytest.raises(RequestError) as caught:
        read_session(str(path))
    place = str(path) if line is None else f"{path}:{line}"
    assert str(caught.value).startswith(f"{place}: ")
    assert said in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def iter_paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from iter_paths(part, (*path, name))


@pytest.mark.spec("REQ-3")
@given(VALUES)
def test_every_value_of_a_json_document_has_its_line(value: Any) -> None:
    """Written one value a line, the paths are those of the value, in its order, and no line comes before the last."""
    located = parse_json(json.dumps(value, indent=1))
    assert located.value == value
    assert list(located.lines) == list(iter_paths(value))
    lines = list(located.lines.values())
    assert lines == sorted(set(lines))
    for path, line in located.lines.items():
        written = json.dumps(value, indent=1).splitlines()[line - 1]
        assert not path or isinstance(path[-1], int) or json.dumps(path[-1]) in written


@pytest.mark.spec("REQ-3")
def test_a_mistake_in_json_is_refused_with_its_line(tmp_path: Path) -> None:
    """The line of the field that is wrong, past strings with quotes, brackets and escapes in them."""
    path = tmp_path / "session.json"
    path.write_text(
        '{\n "requests": [\n  {"source": "mem.rss", "filter": "comm == \'a,[{\\"\'"},\n  {"source": "mem.pss",\n'
        '   "targt": {"pid": 1}}\n ]\n}\n'
    )
    with pytest.raises(RequestError) as caught:
        read_session(str(path))
    assert str(caught.value) == f"{path}:5: requests.1.targt: there is no field 'targt' here; did you mean 'target'?"


@pytest.mark.spec("REQ-3", "SEC-4")
def test_an_alias_bomb_is_refused_before_it_grows(tmp_path: Path) -> None:
    """Aliases that multiply to a billion values are refused at the bound, naming it."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    path = tmp_path / "bomb.yml"
    path.write_text("\n".join(levels))
    with pytest.raises(RequestError, match="at most 100000 values"):
        read_session(str(path))


@pytest.mark.spec("REQ-3", "SEC-4")
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.json", '{"requests": [], "requests": []}', ":1: 'requests' is written twice in one object"),
        ("s.json", '{"requests": [{"source": NaN}]}', "NaN is no JSON number"),
        ("s.json", '{"requests"', ":1: expecting ':' delimiter"),
        ("s.json", "[" * 100_000, "values nest deeper than 40"),
        ("s.toml", "[[requests]]\nsource = 'a'\nsource = 'b'\n", ":3: "),
        ("s.toml", "a = " + "[" * 100_000, "values nest deeper than 40"),
        ("s.toml", "repeat = " + "9" * 5000, "more digits than any that is read"),
        ("s.json", '{"repeat": ' + "9" * 5000 + "}", "more digits than any that is read"),
        ("s.txt", "requests: []", "its extension says no format; pass --input-format"),
    ],
)
def test_the_other_formats_are_as_strict(tmp_path: Path, name: str, text: str, said: str) -> None:
    """JSON and TOML refuse duplicates and runaway nesting too, and an unknown extension names the flag."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(RequestError) as caught:
        read_session(str(path))
    assert said in str(caught.value)


@pytest.mark.spec("SEC-4")
def test_a_file_that_cannot_be_a_session_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    """A huge file, a binary one and one that is not there each get a sentence."""
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(1 << 30)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, said in ((huge, "at most 4 MiB"), (binary, "not UTF-8"), (tmp_path / "none.yaml", "cannot be read")):
        with pytest.raises(RequestError, match=said):
            read_session(str(path))


@pytest.mark.spec("REQ-3")
def test_the_format_may_be_forced(tmp_path: Path) -> None:
    """`--input-format` wins over the extension."""
    path = tmp_path / "session.yaml"
    path.write_text('[[requests]]\nsource = "mem.rss"\n')
    assert read_session(str(path), "toml").requests[0].source == "mem.rss"


@pytest.mark.spec("SEC-4")
@given(st.text(alphabet="a:b-[]{}&*! \n\t'\"#|>%@0", max_size=40))
def test_any_yaml_text_reads_or_is_refused(text: str) -> None:
    """No text makes the reader do anything but answer or refuse."""
    try:
        parse_yaml(text)
    except LocatedError as error:
        assert error.reason


@given(DURATIONS)
def test_a_duration_reads_back_exactly(duration_ns: int) -> None:
    """What is rendered parses to the same nanoseconds."""
    assert parse_duration(render_duration(duration_ns)) == duration_ns


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("100ms", 10**8), ("1.5s", 15 * 10**8), ("2m", 12 * 10**10), (5, 5 * 10**9), ("7us", 7000)],
)
def test_durations_are_read_as_people_write_them(text: Any, nanoseconds: int) -> None:
    """Units from hours to nanoseconds; a bare number is seconds."""
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["0s", "-1s", "1.0000000001ns", "99999999h", "1 fortnight", "", True, "1e3s"])
def test_what_is_no_duration_is_refused(text: Any) -> None:
    """Zero, negative, too fine, too long and unknown units are refused."""
    with pytest.raises(ValueError, match=r"is (no|finer|not)"):
        parse_duration(text)
