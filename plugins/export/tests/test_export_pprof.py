"""The pprof format, decoded by protobuf from a descriptor written here, and by Go's own tool where it is installed."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from omn_export.as_pprof import PPROF
from shapes import WINDOW, make_document
from stack_runs import NASTY_LABELS, make_nasty_stacks, make_row, make_stack_result, make_tree

from omn_core.errors import RequestError
from omn_core.model.result import Document
from omn_core.model.style import TextStyle
from omn_core.names import escape_bytes

pytestmark = pytest.mark.spec("FMT-1", "FMT-2")

GO_TOOL = Path("/usr/lib/go-1.19/pkg/tool/linux_amd64/pprof")
"""pprof as Debian's golang-1.19-go installs it."""

FIELDS = {
    "Profile": (
        "1 sample_type *ValueType; 2 sample *Sample; 3 mapping *Mapping; 4 location *Location; 5 function *Function;"
        "6 string_table *string; 7 drop_frames int64; 8 keep_frames int64; 9 time_nanos int64; 10 duration_nanos int64;"
        "11 period_type ValueType; 12 period int64; 13 comment *int64; 14 default_sample_type int64"
    ),
    "ValueType": "1 type int64; 2 unit int64",
    "Sample": "1 location_id *uint64; 2 value *int64; 3 label *Label",
    "Label": "1 key int64; 2 str int64; 3 num int64; 4 num_unit int64",
    "Mapping": (
        "1 id uint64; 2 memory_start uint64; 3 memory_limit uint64; 4 file_offset uint64; 5 filename int64;"
        "6 build_id int64; 7 has_functions bool; 8 has_filenames bool; 9 has_line_numbers bool;"
        "10 has_inline_frames bool"
    ),
    "Location": "1 id uint64; 2 mapping_id uint64; 3 address uint64; 4 line *Line; 5 is_folded bool",
    "Line": "1 function_id uint64; 2 line int64",
    "Function": "1 id uint64; 2 name int64; 3 system_name int64; 4 filename int64; 5 start_line int64",
}
"""profile.proto as its documentation lists it: number, name, type, `*` for what repeats."""


def make_profile_class() -> Any:
    """Return the message Profile of the fields above."""
    kinds = {"int64": 3, "uint64": 4, "bool": 8, "string": 9}
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="p", syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, field, written in (line.split() for line in fields.split(";")):
            added = message.field.add(name=field, number=int(number), label=3 if written.startswith("*") else 1)
            kind = written.removeprefix("*")
            if kind in kinds:
                added.type = kinds[kind]
            else:
                added.type, added.type_name = 11, f".p.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


Profile = make_profile_class()
Stack = tuple[tuple[str, str | None], ...]


def write(document: Document) -> bytes:
    """Return what the encoder writes."""
    stream = io.BytesIO()
    PPROF.write(document, stream, TextStyle())
    return stream.getvalue()


def read(content: bytes) -> Any:
    """Return the decoded profile, held to what pprof demands of one: an empty first text, ids that are there."""
    profile = Profile.FromString(gzip.decompress(content))
    assert profile.string_table[0] == ""
    assert len(set(profile.string_table)) == len(profile.string_table)
    for rows in (profile.mapping, profile.location, profile.function):
        assert [row.id for row in rows] == list(range(1, len(rows) + 1))
    assert all(len(sample.value) == len(profile.sample_type) for sample in profile.sample)
    return profile


def read_stacks(profile: Any, at: int) -> Counter[Stack]:
    """Return the stacks from the outermost frame with their values of one sample type."""
    texts = profile.string_table
    functions = {row.id: row for row in profile.function}
    mappings = {row.id: texts[row.filename] for row in profile.mapping}
    frames = {
        row.id: (texts[functions[row.line[0].function_id].name], mappings.get(row.mapping_id))
        for row in profile.location
    }
    found: Counter[Stack] = Counter()
    for sample in profile.sample:
        found[tuple(frames[location] for location in reversed(sample.location_id))] += sample.value[at]
    return found


def test_pprof_holds_every_stack_with_its_names() -> None:
    """Frames, objects and weights come back, whatever the names hold, and so does the window's length."""
    document = make_nasty_stacks()
    profile = read(write(document))
    expected: Counter[Stack] = Counter()
    for row in document.results[0].series[0].emits["stack"]["rows"]:
        holders = [None if holder is None else escape_bytes(holder) or None for holder in row["objects"]]
        expected[tuple(reversed(list(zip(map(escape_bytes, row["frames"]), holders, strict=True))))] += row["weight"]
    found = read_stacks(profile, 1)
    assert {
        tuple((name, holder or None) for name, holder in stack): value for stack, value in found.items()
    } == expected
    assert sum(read_stacks(profile, 0).values()) == 3 * len(NASTY_LABELS)
    assert profile.duration_nanos == WINDOW.length_ns


def test_pprof_labels_series_and_names_types_by_source() -> None:
    """A numeric key is a number, a text a text; each request has its types; what was lost is a comment."""
    counted = make_stack_result({None: [make_row(["f"], 2.4, 1.6)]}, source="mem.faults", unit="count")
    named = make_stack_result({"gc": [make_row(["f"], 3)]}, source="cpu.cycles", unit="cycles")
    profile = read(write(make_document(*make_tree().results, counted, named)))
    texts = profile.string_table
    assert [(texts[kind.type], texts[kind.unit]) for kind in profile.sample_type] == [
        ("cpu.profile events", "count"),
        ("cpu.profile", "nanoseconds"),
        ("mem.faults events", "count"),
        ("mem.faults", "count"),
        ("cpu.cycles events", "count"),
        ("cpu.cycles", "cycles"),
    ]
    labels = [[(texts[label.key], texts[label.str], label.num) for label in sample.label] for sample in profile.sample]
    assert labels == [[("task", "7", 0)]] * 2 + [[("task", "8", 0)], [], [("task", "gc", 0)]]
    assert list(profile.sample[3].value) == [0, 0, 2, 2, 0, 0]
    assert max(len(sample.location_id) for sample in profile.sample) == 5001
    assert "cpu.profile: lost: 3 events dropped; the ring was full" in [texts[comment] for comment in profile.comment]


def test_the_first_mapping_is_the_main_programs() -> None:
    """profile.proto has it so: where most of the stacks begin, whatever the library that most of them end in."""
    row = make_row(["memcpy", "work", "main"], 9)
    row["objects"] = ["/lib/libc.so", "/usr/bin/prog", "/usr/bin/prog"]
    (result,) = make_document(make_stack_result({None: [make_row(["idle"], 5, holder="[kernel]"), row]})).results
    profile = read(write(make_document(result)))
    texts = profile.string_table
    assert [texts[one.filename] for one in profile.mapping] == ["/usr/bin/prog", "[kernel]", "/lib/libc.so"]
    ((_, library), *_) = next(stack for stack in read_stacks(profile, 1) if len(stack) == 3)[::-1]
    assert library == "/lib/libc.so"


def test_what_a_key_is_called_is_a_label_of_its_own() -> None:
    """By the attribute that says it, where the request names one."""
    result = make_stack_result({"7": [make_row(["f"], 1)]}, labels={"task": "comm"})
    (series,) = result.series
    named = attrs.evolve(result, series=(attrs.evolve(series, labels={"task": "worker"}),))
    profile = read(write(make_document(named)))
    texts = profile.string_table
    ((number, name),) = [sample.label for sample in profile.sample]
    assert [(texts[label.key], texts[label.str]) for label in (number, name)] == [("task", "7"), ("comm", "worker")]


def test_a_numeric_key_is_a_number() -> None:
    """A key that is a number can be filtered as one, a negative too."""
    profile = read(write(make_document(make_stack_result({-3: [make_row(["f"], 1)]}))))
    ((label,),) = [sample.label for sample in profile.sample]
    assert (profile.string_table[label.key], label.num, label.str) == ("task", -3, 0)


@given(st.lists(st.tuples(st.binary(max_size=12), st.integers(-(2**70), 2**70)), min_size=1, max_size=8))
def test_any_name_and_weight_comes_back(pairs: list[tuple[bytes, int]]) -> None:
    """Bytes of any kind are a name, and a weight past 64 bits is the greatest that the format can hold."""
    rows = [make_row([name.decode("utf-8", "surrogateescape"), "main"], weight) for name, weight in pairs]
    profile = read(write(make_document(make_stack_result({None: rows}))))
    expected: Counter[Stack] = Counter()
    for row in rows:
        stack = (("main", "/usr/bin/prog"), (escape_bytes(row["frames"][0]), "/usr/bin/prog"))
        expected[stack] += min(max(row["weight"], -(2**63)), 2**63 - 1)
    assert read_stacks(profile, 1) == expected


def test_one_run_is_one_file() -> None:
    """Nothing of the moment of writing is in the file."""
    assert write(make_tree()) == write(make_tree())


def test_gos_tool_reads_the_profile(tmp_path: Path) -> None:
    """`go tool pprof` checks the file, and finds the shares of the functions and the comments."""
    if not GO_TOOL.exists():
        pytest.skip("go tool pprof is not installed here")
    run = tmp_path / "run.pb.gz"
    run.write_bytes(write(make_tree()))

    def ask(*options: str, path: Path = run) -> str:
        environment = {"HOME": str(tmp_path), "PPROF_TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
        command = [str(GO_TOOL), *options, str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    top = ask("-top", "-nodecount=9", "-unit=ns")
    flat = {name: int(value) for value, name in re.findall(r"^\s*(\d+)ns .*% +(\S+)$", top, re.MULTILINE)}
    assert flat == {"work": 70_000, "rest": 30_000, "down": 5_000}
    assert "the ring was full" in ask("-comments")
    assert re.search(r"task:.*105", ask("-tags", "-unit=ns").replace("\n", " "))
    nasty = tmp_path / "nasty.pb.gz"
    nasty.write_bytes(write(make_nasty_stacks()))
    raw = ask("-raw", path=nasty)
    assert "a;b c 7" in raw
    assert "x" * 65_536 in raw


def test_pprof_holds_no_listing() -> None:
    """A listing is refused as the row says."""
    with pytest.raises(RequestError, match="holds runs alone"):
        PPROF.write_plain({}, io.BytesIO(), TextStyle())
