"""What is a pair and what is none, each mistake named by its file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reference.load import FOLDER, load_families, load_pairs

from omn_core.errors import CatalogError
from omn_core.model.catalog import Catalog
from omn_core.plugins import Registry

pytestmark = pytest.mark.spec("BEN-1")

PAIR = """\
pairs:
  - id: mem-rss-ps
    source: mem.rss
    use: how much memory a process holds
    unit: bytes
    asked: {target: pid, mode: snapshot, emit: summary}
    omn: {field: last}
    workload: {name: touch_bytes, arguments: {size_bytes: 4096}, until: touched}
    tool:
      title: ps -o rss
      package: procps
      command: [ps, -o, "pid,rss", -p, "{pid}"]
      when: held
      parser: reference.parsers.procps:parse_ps
      figure: rss_bytes
    tolerance: {relative: 0.01}
"""


def test_a_pair_reads_as_it_is_written(tmp_path: Path) -> None:
    """The pair that the mistakes below are made in has none."""
    (tmp_path / "mem.yaml").write_text(PAIR)
    (pair,) = load_pairs(tmp_path)
    assert (pair.id, pair.family, pair.subject) == ("mem-rss-ps", "mem", "mem.rss vs ps -o rss")
    assert pair.tool.command[-1] == "{pid}"
    assert (pair.tolerance.relative, pair.tolerance.absolute) == (0.01, None)


@pytest.mark.parametrize(
    ("wrong", "right", "line", "reason"),
    [
        ("id: mem-rss-ps", "id: Mem RSS", 2, "an id is small letters, digits, dots and dashes"),
        ("source: mem.rss", "source: io.bytes", 3, "belongs to the file of its own family, io.yaml"),
        ("unit: bytes", "units: bytes", 5, "there is no field 'units' here; did you mean 'unit'?"),
        ("target: pid", "target: launch", 6, "the window is the runner's"),
        ("target: pid", "target: dev", 6, "target dev is the stage's, and there is no stage"),
        ("mode: snapshot", "mode: [snapshot]", 6, "a text belongs here, not a list"),
        ("emit: summary", "emit: 'topk:many'", 6, "topk"),
        ("{field: last}", "{field: last, figure: rss}", 7, "a field of its answer, or a figure of a parser"),
        ("{field: last}", "{}", 7, "a field of its answer, or a figure of a parser"),
        ("name: touch_bytes", "name: touch_everything", 8, "there is no workload 'touch_everything'"),
        ("size_bytes: 4096", "bytes: 4096", 8, "touch_bytes"),
        (", until: touched", "", 2, "a workload's 'until' is for a tool that is"),
        ("when: held", "when: later", 13, "'later' is no time for a tool to run; the words are held, around"),
        ("when: held", "when: during", 2, "a workload's 'until' is for a tool that is"),
        ("procps:parse_ps", "procps", 9, "a parser is written module:function"),
        ("procps:parse_ps", "procps:parse_nothing", 14, "there is no parser"),
        ("relative: 0.01", "relative: 0.01, exact: true", 16, "or exact, or log2_buckets alone"),
        ("relative: 0.01", "relative: 0.01, side: above", 16, "its reason says why"),
        ("relative: 0.01", "relative: -0.01", 16, "no negative number"),
        ("{relative: 0.01}", "{}", 16, "or exact, or log2_buckets alone"),
        ("{relative: 0.01}", "{exact: true}\n    requires: [losetup]", 17, "a requirement is a path, program:NAME"),
        ("{relative: 0.01}", "{exact: true}\n    runs: 2", 2, "runs is an odd number"),
        ("{relative: 0.01}", "{exact: true}\n    stage: {name: moon}", 17, "there is no stage 'moon'"),
    ],
)
def test_a_mistake_in_a_pair_is_refused_with_its_file_line_and_reason(
    tmp_path: Path, wrong: str, right: str, line: int, reason: str
) -> None:
    """Each names the line it stands on, or the pair's first where the pair as a whole is wrong."""
    assert wrong in PAIR
    (tmp_path / "mem.yaml").write_text(PAIR.replace(wrong, right, 1))
    with pytest.raises(CatalogError, match=re.escape(reason)) as caught:
        load_pairs(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/mem.yaml:{line}:")


def test_an_id_is_there_once(tmp_path: Path) -> None:
    """In one file and over all files: verdicts are told apart by it."""
    other = PAIR.replace("pairs:\n", "")
    (tmp_path / "mem.yaml").write_text(PAIR + other)
    with pytest.raises(CatalogError, match=r"mem.yaml:17: .*'mem-rss-ps' is in mem.yaml:2 already"):
        load_pairs(tmp_path)


def test_every_pair_asks_what_its_source_answers(registry: Registry, catalog: Catalog) -> None:
    """The sources of the shipped pairs, their units, modes, emits, targets and values are the catalog's."""
    for pair in load_pairs():
        entry = catalog.entries[pair.source]
        assert pair.asked.mode in entry.modes, pair.id
        assert pair.asked.emit.partition("@")[0] in entry.emits[pair.asked.mode], pair.id
        assert entry.targets.get(pair.asked.target, "") is None, pair.id
        value = entry.value if pair.asked.value is None else pair.asked.value
        assert pair.omn.parser is not None or entry.attributes[value] == pair.unit, pair.id


def test_every_family_has_its_file() -> None:
    """A file is named for its family."""
    for family in load_families():
        assert family.path == FOLDER / f"{family.name}.yaml"
        assert family.pairs
