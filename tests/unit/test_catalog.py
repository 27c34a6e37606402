"""The catalog's rules, each with the place of what breaks it; and its cache."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from omn_core.catalog.load import load_catalog
from omn_core.catalog.requirement import parse_need
from omn_core.errors import CatalogError
from omn_core.model.catalog import TargetCaveat
from omn_core.model.probe import Need
from omn_core.model.rows import RequirementRow

FIRST = "{id: first, requires: ['lab:available'], cost: low}"


def second(**fields: str) -> str:
    given = {"id": "second", "requires": "['lab:available']", "cost": "low", "degrades": "something", **fields}
    return FIRST + "\n{" + ", ".join(f"{name}: {value}" for name, value in given.items() if value) + "}"


@pytest.mark.spec("CAT-1", "CAT-2")
def test_an_entry_loads_whole(laboratory: Any, entry_text: Any) -> None:
    """Every field that an entry and a backend state reaches the model."""
    chain = (
        "{id: first, requires: ['lab:available'], cost: med, cost_by_regime: {launch: low}, keys: [task],"
        " filter_fields: [comm], filter_in_program: [comm], modes: [poll], emits: [summary, raw], targets: [pid]}\n"
        "{id: second, requires: ['lab:missing', 'lab:unknown'], cost: low, degrades: 'it forgets', unit: ns,"
        " uncollected: 'nobody wrote it', unseen: 'captured trees'}\n"
        "{id: third, requires: ['lab:available'], cost: high, equivalent: true}"
    )
    changes = {
        "caveats": "['read it with care']",
        "stacks": "program",
        "overflow": "'counted and dropped'",
        "default": "{mode: poll, emits: {poll: summary}}",
    }
    laboratory.install_lab(entry_text(changes, chain))
    _, catalog = laboratory.load()
    entry = catalog.entries["lab.depth"]
    first, other, third = entry.chain
    assert entry.family == "lab"
    assert entry.modes == ("poll", "count")
    assert entry.emits["poll"] == ("summary", "hist", "raw", "rate", "topk")
    assert entry.targets == {"launch": None, "pid": None, "system": None, "tid": "a thread has no depth"}
    assert entry.default.mode == "poll"
    assert (entry.caveats, entry.stacks, entry.overflow) == (
        ("read it with care",),
        "program",
        "counted and dropped",
    )
    assert (first.cost, dict(first.cost_by_regime), first.filter_in_program) == ("med", {"launch": "low"}, ("comm",))
    assert entry.emits_of(first, "poll") == ("summary", "raw")
    assert entry.targets_of(first) == ("pid",)
    assert entry.keys_of(other) == ("task", "cpu")
    assert other.requires == (Need("lab:missing", "lab", "missing"), Need("lab:unknown", "lab", "unknown"))
    assert entry.unit_of(other, "depth") == "ns"
    assert entry.unit_of(other, "share") == "ratio"
    assert third.equivalent
    assert (other.uncollected, other.unseen) == ("nobody wrote it", "captured trees")
    assert catalog.distributions["lab.depth"] == "omn-lab"
    assert entry.adds_up("poll")
    assert not entry.adds_up("count")


BROKEN_ENTRIES = [
    ({"keys": "[tusk]"}, None, "key 'tusk' is unknown; did you mean 'task'?"),
    ({"modes": "[pole, count]"}, None, "mode 'pole' is unknown; did you mean 'poll'?"),
    ({"emits": "{poll: [sumary], count: [count]}"}, None, "emit 'sumary' is unknown; did you mean 'summary'?"),
    ({"emits": "{poll: [summary]}"}, None, "mode 'count' has no emit"),
    ({"emits": "{poll: [summary], count: [count], trace: [raw]}"}, None, "mode 'trace' is unknown"),
    ({"unit": "furlongs"}, None, "unit 'furlongs' is unknown"),
    ({"attributes": "{depth: count, share: byte, comm: text}"}, None, "unit 'byte' is unknown; did you mean 'bytes'?"),
    ({"value": "height"}, None, "the value 'height' is none of the attributes"),
    ({"keys": "[task, cpu, func]"}, None, "'func' is read from stacks, and the entry does not say whose"),
    (
        {"keys": "[task, cpu, func]", "stacks": "program"},
        None,
        "'func' divides the answer, and no filter or topk may name it",
    ),
    ({"value": "share"}, None, "the value's unit is 'ratio', and the entry's 'count'"),
    ({"determinism": "exact"}, None, "determinism 'exact' is unknown"),
    ({"targets": "{pid: no}"}, None, "a kind that is not served says why"),
    ({"targets": "{pid: 'no: never'}"}, None, "an entry serves at least one kind of target"),
    ({"caveats": "[{for: [pid]}]"}, None, "a caveat is a text, or a mapping with 'for' (kinds of target) and 'text'"),
    ({"caveats": "[{for: pid, text: x}]"}, None, "a caveat's 'for' is a list of kinds of target"),
    ({"caveats": "[{for: [pod], text: x}]"}, None, "target kind 'pod' is unknown; did you mean 'pid'?"),
    ({"caveats": "[{for: [tid], text: x}]"}, None, "the target kind 'tid' is not served"),
    ({"caveats": "[{for: [], text: x}]"}, None, "a caveat that is for no kind of target is read by nobody"),
    ({"caveats": "[{for: [launch, pid, system], text: x}]"}, None, "it is for every kind of target that is served"),
    ({"targets": "{planet: yes}"}, None, "target kind 'planet' is unknown"),
    ({"targets": "{pid: perhaps}"}, None, "a kind of target is 'yes' or 'no: reason', not 'perhaps'"),
    ({"targets": "{cgroup: yes, container: 'no: why not'}"}, None, "a container is its cgroup, which is served"),
    ({"filter_fields": "[colour]"}, None, "field 'colour' is unknown"),
    ({"id": "other.depth"}, None, "'other.depth' is outside this plugin's family 'lab'"),
    ({"id": "lab"}, None, "'lab' is not family.name in lower case"),
    ({"title": ""}, None, "the field 'title' is missing"),
    ({"titel": "x"}, None, "there is no field 'titel' here; did you mean 'title'?"),
    ({"default": "{mode: trace}"}, None, "mode 'trace' is unknown"),
    ({"default": "{emits: {poll: timeline}}"}, None, "emit 'timeline' is unknown"),
    ({"modes": "poll"}, None, "a list belongs here, not 'poll'"),
    ({"title": "[a, b]"}, None, "a text belongs here, not a list"),
    ({}, second(id="first"), "backend 'first' is in the chain twice"),
    ({}, second(cost="cheap"), "cost band 'cheap' is unknown"),
    ({}, second(degrades=""), "after the first, a backend says what it degrades or that it is equivalent"),
    ({}, second(equivalent="true"), "after the first, a backend says what it degrades or that it is equivalent"),
    ({}, second(equivalent="true", degrades="", cost="free"), "it is equivalent to first and declared cheaper"),
    ({}, second(equivalent="true", degrades="", unit="ns"), "a unit of its own stands only on a fallback"),
    (
        {},
        "{id: first, requires: ['lab:available'], cost: low, unit: ns}",
        "a unit of its own stands only on a fallback",
    ),
    ({}, "{id: first, requires: ['lab:available'], cost: low, degrades: x}", "the first of a chain is what the others"),
    ({}, "{id: first, requires: [], cost: low}", "it requires nothing; what needs nothing says tool-free"),
    ({}, second(modes="[]"), "its modes are written empty"),
    ({}, second(emits="[]"), "its emits are written empty"),
    ({}, second(targets="[]"), "its targets are written empty"),
    ({}, second(modes="[trace]"), "'trace' is none of the entry's modes"),
    ({}, second(targets="[tid]"), "'tid' is none of the entry's targets"),
    ({}, second(keys="[gpu]"), "'gpu' is none of the entry's keys"),
    ({}, second(filter_in_program="[pid]"), "'pid' is none of its filter fields"),
    ({}, "{id: first, requires: ['lab:available'], cost: low, modes: [poll]}", "no backend serves the mode 'count'"),
    ({}, second(requires="['labb:x']"), "no installed plugin reads the requirement 'labb:x'; did you mean 'lab'?"),
    ({}, second(requires="['lab:X1']"), "the requirement 'lab:X1' is not of the form its class reads"),
    ({}, second(requires="[5]"), "a requirement is a text, not 5"),
]


@pytest.mark.spec("CAT-1", "CAT-2", "CAT-3", "CAT-4")
@pytest.mark.parametrize(("changes", "chain", "said"), BROKEN_ENTRIES)
def test_a_broken_entry_is_refused_by_file_entry_and_line(
    laboratory: Any, record_of: Any, entry_text: Any, changes: dict[str, str], chain: str | None, said: str
) -> None:
    """Each rule, broken alone, names itself and its place, and takes the plugin's sources with it and no others."""
    laboratory.install_lab(entry_text({"id": "lab.sound"}) + entry_text(changes, chain))
    registry, catalog = laboratory.load()
    record = record_of(registry, "lab")
    assert record.state == "failed"
    assert said in record.reason
    place = re.search(r"omn_lab/catalog\.yaml:(\d+): ", record.reason)
    assert place is not None
    lines = (entry_text({"id": "lab.sound"}) + entry_text(changes, chain)).splitlines()
    start = len(entry_text({"id": "lab.sound"}).splitlines())
    assert start < int(place[1]) <= len(lines)
    assert not [source for source in catalog.entries if source.startswith("lab.")]
    assert all(other.state != "failed" for other in registry.records if other is not record)


@pytest.mark.spec("CAT-2")
def test_a_caveat_may_concern_some_targets_alone(laboratory: Any, entry_text: Any) -> None:
    """Answers about other kinds of target do not carry it; from the cache it reads as from the file."""
    laboratory.install_lab(entry_text({"caveats": "[of all, {for: [system], text: of the machine}]"}))
    for _ in range(2):
        _, catalog = laboratory.load()
        entry = catalog.entries["lab.depth"]
        assert entry.caveats_of("pid") == ("of all",)
        assert entry.caveats_of("system") == ("of all", "of the machine")
        assert entry.caveats == ("of all", TargetCaveat("of the machine", ("system",)))
        assert str(entry.caveats[1]) == "of the machine (target system)"


@pytest.mark.spec("CAT-2", "RES-4")
def test_a_backend_may_say_that_its_events_carry_no_key(laboratory: Any, entry_text: Any) -> None:
    """An empty list of keys or fields is none; a list that is not there is the entry's own."""
    laboratory.install_lab(entry_text(None, FIRST + "\n" + second(keys="[]", filter_fields="[]").partition("\n")[2]))
    _, catalog = laboratory.load()
    entry = catalog.entries["lab.depth"]
    first, other = entry.chain
    assert (entry.keys_of(first), entry.filter_fields_of(first)) == (entry.keys, entry.filter_fields)
    assert (entry.keys_of(other), entry.filter_fields_of(other)) == ((), ())


@pytest.mark.spec("CAT-8", "CAT-10")
@pytest.mark.parametrize(
    ("band", "regime", "loads"), [("med", "low", True), ("med", "med", True), ("low", "med", False)]
)
def test_cost_is_the_worst_regimes(
    laboratory: Any, record_of: Any, entry_text: Any, band: str, regime: str, loads: bool
) -> None:
    """No regime's band is dearer than the backend's own."""
    chain = f"{{id: first, requires: ['lab:available'], cost: {band}, cost_by_regime: {{launch: {regime}}}}}"
    laboratory.install_lab(entry_text({}, chain))
    registry, catalog = laboratory.load()
    assert ("lab.depth" in catalog.entries) is loads
    if not loads:
        assert "dearer than the worst regime's low" in record_of(registry, "lab").reason


@pytest.mark.spec("CAT-3")
@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- id: lab.a\n  id: lab.b\n", 2, "'id' is written twice"),
        ("- id: lab.a\n\ttitle: x\n", 2, "a tab indents here"),
        ("- id: [lab.a\n", 2, "expected"),
        ("- id: lab.a\n  title: !!python/name:os.system x\n", 2, "makes no plain value"),
        ("just text\n", 1, "a mapping belongs here, not 'just text'"),
    ],
)
def test_a_file_that_is_no_catalog_is_refused_at_its_line(
    laboratory: Any, record_of: Any, text: str, line: int, said: str
) -> None:
    """Duplicate keys, tabs, tags and broken syntax are refused where they stand."""
    laboratory.install_lab(text)
    registry, _ = laboratory.load()
    reason = record_of(registry, "lab").reason
    assert f"omn_lab/catalog.yaml:{line}: " in reason
    assert said in reason


@pytest.mark.spec("CAT-3")
def test_one_source_twice_in_a_catalog_names_both_lines(laboratory: Any, record_of: Any, entry_text: Any) -> None:
    """A duplicate id is refused at the second one's line, naming the first's."""
    laboratory.install_lab(entry_text() + entry_text())
    registry, _ = laboratory.load()
    lines = len(entry_text().splitlines())
    assert f"catalog.yaml:{lines + 1}: lab.depth: it is on line 1 already" in record_of(registry, "lab").reason


@pytest.mark.spec("PLG-10")
def test_a_family_adds_words_of_its_own_under_its_name(laboratory: Any, record_of: Any, entry_text: Any) -> None:
    """A key and a unit named under the family load; one that is not named so is refused."""
    entries = entry_text({"keys": "[lab.layer, task]", "attributes": "{depth: count, share: lab.fathom, comm: text}"})
    body = "\n".join("  " + line for line in entries.splitlines())
    own = "vocabulary:\n  keys: {lab.layer: 'a layer'}\n  units: {lab.fathom: {meaning: fathoms, scale: plain}}\n"
    laboratory.install_lab(f"{own}sources:\n{body}\n")
    _, catalog = laboratory.load()
    assert catalog.entries["lab.depth"].keys == ("lab.layer", "task")
    assert catalog.vocabulary.units["lab.fathom"].scale == "plain"
    laboratory.install_lab(f"{own.replace('lab.layer', 'layer')}sources:\n{body}\n")
    registry, _ = laboratory.load()
    assert "a family's own word starts with its name: lab.layer" in record_of(registry, "lab").reason
    laboratory.install_lab(f"{own.replace('plain', 'plane')}sources:\n{body}\n")
    registry, _ = laboratory.load()
    assert "scale 'plane' is unknown; did you mean 'plain'?" in record_of(registry, "lab").reason


@pytest.mark.spec("PLG-10")
def test_a_family_labels_keys_of_its_own(laboratory: Any, record_of: Any, entry_text: Any) -> None:
    """A label of a key that the family adds stands beside the shared ones; one of another key is refused."""
    body = "\n".join("  " + line for line in entry_text({"keys": "[lab.layer, task]"}).splitlines())
    own = "vocabulary:\n  keys: {lab.layer: 'a layer'}\n  labels: {lab.layer: comm}\n"
    laboratory.install_lab(f"{own}sources:\n{body}\n")
    _, catalog = laboratory.load()
    assert catalog.vocabulary.labels["lab.layer"] == "comm"
    assert catalog.vocabulary.labels["iface"] == "name"
    laboratory.install_lab(f"{own.replace('labels: {lab.layer', 'labels: {cpu')}sources:\n{body}\n")
    registry, _ = laboratory.load()
    assert "labels are of keys of the family's own vocabulary, and 'cpu' is none" in record_of(registry, "lab").reason


@pytest.mark.spec("PLG-10")
def test_a_family_says_which_of_its_keys_count_different_things(
    laboratory: Any, record_of: Any, entry_text: Any
) -> None:
    """Beside those of the shared vocabulary; a key of another's it cannot speak for."""
    body = "\n".join("  " + line for line in entry_text({"keys": "[lab.layer, task]"}).splitlines())
    own = "vocabulary:\n  keys: {lab.layer: 'a layer'}\n  apart: [lab.layer]\n"
    laboratory.install_lab(f"{own}sources:\n{body}\n")
    _, catalog = laboratory.load()
    assert catalog.vocabulary.apart == ("counter", "lab.layer")
    laboratory.install_lab(f"{own.replace('[lab.layer]', '[cpu]')}sources:\n{body}\n")
    registry, _ = laboratory.load()
    assert "apart are of keys of the family's own vocabulary, and 'cpu' is none" in record_of(registry, "lab").reason


@pytest.mark.spec("CAT-5")
def test_a_folder_stands_in_for_every_installed_catalog(laboratory: Any, tmp_path: Path, entry_text: Any) -> None:
    """Reading from a folder gives its entries alone; what is wrong with one raises with its place."""
    laboratory.install_lab(entry_text())
    registry = laboratory.discover()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "any.yaml").write_text(entry_text({"id": "else.where"}))
    assert list(load_catalog(registry, folder).entries) == ["else.where"]
    (folder / "broken.yaml").write_text(entry_text({"id": "else.what", "keys": "[tusk]"}))
    with pytest.raises(CatalogError, match=r"broken\.yaml:\d+: else\.what: key 'tusk' is unknown") as caught:
        load_catalog(registry, folder)
    assert caught.value.line == 9
    with pytest.raises(CatalogError, match="cannot be read"):
        load_catalog(registry, tmp_path / "nowhere")


@pytest.mark.spec("CAT-6")
def test_a_warm_start_parses_no_yaml(laboratory: Any, entry_text: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read once is read back equal from the cache, and changed content is read again."""
    laboratory.install_lab(entry_text())
    _, cold = laboratory.load()
    with monkeypatch.context() as patched:
        patched.setattr("omn_core.catalog.read.parse_yaml", lambda _: pytest.fail("YAML was parsed"))
        _, warm = laboratory.load()
    assert warm.entries == cold.entries
    assert warm.vocabulary == cold.vocabulary
    laboratory.install_lab(entry_text({"title": "another"}))
    _, changed = laboratory.load()
    assert changed.entries["lab.depth"].title == "another"


@pytest.mark.spec("CAT-5", "CAT-6")
def test_what_is_asked_is_read_and_what_nobody_has_is_looked_for_everywhere(laboratory: Any, entry_text: Any) -> None:
    """A source or a family waits for the plugins that name it; a clash over it is a clash; no word is missed."""
    laboratory.install_lab(entry_text())
    registry = laboratory.discover()
    for asked in ("lab.depth", "lab"):
        assert set(load_catalog(registry, asked=[asked]).entries) == {"lab.depth"}
    whole = load_catalog(registry)
    assert len(whole.entries) > 1
    for missing in ("lab.dept", "nowhere", "lab.nowhere"):
        assert load_catalog(registry, asked=[missing, "lab.depth"]).entries == whole.entries


_LISTED = """
import sys
from omn_core.cli.entry import main
code = main(sys.argv[1:])
heavy = {"cattrs", "email", "numpy", "ruamel", "stevedore", "tomli_w"}
print(code, *sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.spec("CAT-6")
@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [(("list",), "0"), (("mem.rss", "--format", "json", "--", "true"), "0 numpy")],
)
def test_a_warm_start_loads_what_it_needs_and_no_more(omn: Any, arguments: tuple[str, ...], loaded: str) -> None:
    """No parser, no converter and nothing that looks for plugins is loaded once they are kept; numpy by a run alone."""
    assert omn(*arguments).code == 0
    code = [sys.executable, "-c", _LISTED, *arguments]
    done = subprocess.run(code, capture_output=True, text=True, env=omn.environment(), check=True)
    assert done.stdout.splitlines()[-1] == loaded


@pytest.mark.spec("CAT-6", "SEC-3")
@pytest.mark.parametrize("spoiled", ["garbage", "other shape", "truncated", "writable by others", "another user's"])
def test_a_cache_that_cannot_be_trusted_is_rewritten(
    laboratory: Any, entry_text: Any, tmp_path: Path, spoiled: str
) -> None:
    """A corrupt, foreign-owned or world-writable cache file is ignored, and replaced by a sound one."""
    laboratory.install_lab(entry_text())
    _, cold = laboratory.load()
    (path,) = (tmp_path / "cache").glob("catalog.lab-*.json")
    sound = path.read_bytes()
    poisoned = sound.replace(b"how deep it is", b"how deep it lies")
    if spoiled == "garbage":
        path.write_bytes(b"\x00\xff not JSON")
    elif spoiled == "other shape":
        path.write_text(json.dumps({"words": {}, "files": [{"path": 5}]}))
    elif spoiled == "truncated":
        path.write_bytes(sound[: len(sound) // 2])
    elif spoiled == "writable by others":
        path.write_bytes(poisoned)
        path.chmod(0o666)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a file to another user")
        path.write_bytes(poisoned)
        os.chown(path, 4711, 4711)
    _, again = laboratory.load()
    assert again.entries == cold.entries
    assert path.read_bytes() == sound
    assert path.stat().st_uid == os.geteuid()


@pytest.mark.spec("CAT-4", "PRB-3")
@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("kernel>=5.8", Need("kernel>=5.8", "kernel>=", "5.8")),
        ("path:/proc/a b", Need("path:/proc/a b", "path", "/proc/a b")),
        ("tool-free", Need("tool-free", "tool-free", "")),
        ("raw_tp:switch(a, b)", Need("raw_tp:switch(a, b)", "raw_tp", "switch(a, b)")),
    ],
)
def test_a_requirement_is_split_into_class_and_argument(text: str, need: Need) -> None:
    """A version class ends at its comparison, any other at its first colon."""
    rows = [
        RequirementRow("kernel>=", "", r"\d+\.\d+"),
        RequirementRow("path", "", r"/.*"),
        RequirementRow("tool-free", ""),
        RequirementRow("raw_tp", "", r"\w+\(.*\)"),
    ]
    assert parse_need(text, {row.kind: row for row in rows}) == need


@pytest.mark.spec("CAT-4")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kernl>=5", "no installed plugin reads the requirement 'kernl>=5'"),
        ("tool-free:x", "takes no argument"),
        ("kernel>=five", r"is not of the form its class reads \(such as 'kernel>=5.8'\)"),
        ("kernel", "no installed plugin reads"),
    ],
)
def test_a_requirement_nobody_reads_is_refused_by_name(text: str, said: str) -> None:
    """An unknown class, a stray argument and a malformed one each get their sentence."""
    rows = [RequirementRow("kernel>=", "", r"\d+\.\d+", "kernel>=5.8"), RequirementRow("tool-free", "")]
    with pytest.raises(ValueError, match=said):
        parse_need(text, {row.kind: row for row in rows})


@pytest.mark.spec("CAT-11")
def test_backends_of_one_counter_share_its_attribute(catalog: Any) -> None:
    """Every installed chain's backends answer under the entry's own attribute names: none declares another."""
    for entry in catalog.entries.values():
        for backend in entry.chain:
            carried = {*entry.attributes, *entry.keys}
            assert set(entry.filter_fields_of(backend)) <= carried, (entry.id, backend.id)
