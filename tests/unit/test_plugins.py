"""Discovery: what loads, what does not and why, and who wins when two claim one thing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omn_core
from omn_core.catalog.known import read_known
from omn_core.hookspecs import CONTRACT
from omn_core.plugins import describe

EMIT = """
from omn_core.api import EmitRow, hookimpl
OMN_CONTRACT = "1.0"
@hookimpl
def omn_emits():
    return [EmitRow({name!r}, "omn_core.emit.count:COUNT")]
"""


LOAD = """
from omn_core.catalog.load import load_catalog
from omn_core.plugins import discover
load_catalog(discover())
"""


@pytest.mark.spec("PLG-1")
def test_the_core_alone_holds_no_source(laboratory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every family disabled the core knows no source and no requirement class, and still its own emits."""
    installed = [record.name for record in laboratory.discover().records if record.name != "core"]
    monkeypatch.setenv("OMN_DISABLE_PLUGINS", ",".join(installed))
    registry, catalog = laboratory.load()
    assert dict(catalog.entries) == {}
    assert registry.requirements == {}
    assert registry.collectors == {}
    assert {"count", "summary", "hist", "rate", "topk", "raw", "timeline"} <= set(registry.emits)
    assert [record.state for record in registry.records if record.name in installed] == ["disabled"] * len(installed)


@pytest.mark.spec("PLG-4")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise RuntimeError('broken on purpose')", "RuntimeError: broken on purpose"),
        ("import a_module_nobody_has", "ModuleNotFoundError"),
        ("raise SystemExit(7)", "SystemExit: 7"),
        ("assert False, 'an assertion'", "AssertionError: an assertion"),
        ("def broken(:\n", "SyntaxError"),
    ],
)
def test_a_plugin_that_fails_to_import_is_a_record_with_its_reason(
    laboratory: Any, record_of: Any, body: str, said: str
) -> None:
    """Whatever importing a plugin raises is its record's reason, and every other plugin loads."""
    laboratory.install("broken", body)
    laboratory.install("sound", EMIT.format(name="sound"))
    registry = laboratory.discover()
    record = record_of(registry, "broken")
    assert record.state == "failed"
    assert said in record.reason
    assert record.distribution == "omn-broken"
    assert record_of(registry, "sound").state == "loaded"
    assert "sound" in registry.emits


@pytest.mark.spec("PLG-4", "PLG-6")
@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("    raise ValueError('no rows today')", "omn_emits raised ValueError: no rows today"),
        ("    return ['not a row']", "omn_emits returned 'not a row' where EmitRow rows belong"),
        ("    return 5", "omn_emits returned 5 where EmitRow rows belong"),
        ("    raise SystemExit(7)", "omn_emits raised SystemExit: 7"),
        ("    raise ValueError('\\x1b[31m\\nomn: x')", "omn_emits raised ValueError: \\x1b[31m omn: x"),
        ("    raise SystemExit(9)", "omn_emits raised SystemExit: 9"),
        ("    from omn_core.api import EmitRow\n    return [EmitRow([], 'm:o')]", "whose name is no text"),
    ],
)
def test_a_hook_that_breaks_its_contract_takes_nothing_from_the_others(
    laboratory: Any, record_of: Any, hook: str, said: str
) -> None:
    """One plugin's raising or ill-typed hook is its own reason; another plugin's rows of the same hook stand."""
    text = f"from omn_core.api import hookimpl\nOMN_CONTRACT = '1.0'\n@hookimpl\ndef omn_emits():\n{hook}\n"
    laboratory.install("broken", text)
    laboratory.install("sound", EMIT.format(name="sound"))
    registry = laboratory.discover()
    assert said in record_of(registry, "broken").reason
    assert registry.emits["sound"].name == "sound"
    assert describe(record_of(registry, "sound"), registry)["emits"] == ["sound"]


@pytest.mark.spec("PLG-4")
@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("['omn_broken']", "omn_catalog returned ['omn_broken'], not a package's name"),
        ("''", "omn_catalog returned '', not a package's name"),
        ("'.relative'", "its catalog package '.relative' cannot be read"),
        ("'omn_broken.data'", "its catalog package 'omn_broken.data' cannot be read: RuntimeError: no data today"),
        ("'os'", "its catalog package 'os'"),
    ],
)
def test_a_catalog_that_is_nowhere_is_its_plugins_reason(
    laboratory: Any, record_of: Any, package: str, said: str
) -> None:
    """Whatever a plugin names as its catalog, and whatever importing it raises, the other plugins' sources load."""
    hook = f"@hookimpl\ndef omn_catalog():\n    return {package}\n"
    text = f"from omn_core.api import hookimpl\nOMN_CONTRACT = '1.0'\n{hook}"
    laboratory.install("broken", text, data__py="raise RuntimeError('no data today')")
    sources = set(laboratory.load()[1].entries)
    registry, _ = laboratory.load()
    assert said in record_of(registry, "broken").reason
    laboratory.forget()
    shutil.rmtree(laboratory.folder / "omn_broken-1.0.dist-info")
    assert set(laboratory.load()[1].entries) == sources


@pytest.mark.spec("PLG-8")
@pytest.mark.parametrize("stated", ["'2.0'", "'0.9'", "None", "1", "'one'", "'²'", "'1' * 5000"])
def test_a_plugin_of_another_major_contract_is_refused_by_name(laboratory: Any, record_of: Any, stated: str) -> None:
    """A plugin built for another major version, or stating none, is incompatible and hands nothing over."""
    text = EMIT.format(name="later").replace('"1.0"', stated)
    laboratory.install("later", text)
    registry = laboratory.discover()
    record = record_of(registry, "later")
    assert record.state == "incompatible"
    assert "contract" in record.reason
    assert "later" not in registry.emits


@pytest.mark.spec("PLG-8")
def test_a_later_minor_contract_loads(laboratory: Any, record_of: Any) -> None:
    """A minor version adds names and takes none away, so a plugin of any minor version loads."""
    laboratory.install("later", EMIT.format(name="later").replace("1.0", f"{CONTRACT[0]}.99"))
    assert record_of(laboratory.discover(), "later").state == "loaded"


@pytest.mark.spec("PLG-4")
def test_two_strangers_claiming_one_emit_are_both_named_and_both_refused(laboratory: Any, record_of: Any) -> None:
    """Where neither plugin ships with omn, neither claim stands, and each record names the other."""
    laboratory.install("one", EMIT.format(name="shared"))
    laboratory.install("two", EMIT.format(name="shared"))
    registry = laboratory.discover(("omn",))
    assert "shared" not in registry.emits
    for name in ("one", "two"):
        record = record_of(registry, name)
        assert record.state == "clash"
        assert "emit shared is claimed by one (omn-one) and two (omn-two); neither is used" in record.reason


@pytest.mark.spec("PLG-4")
def test_the_plugin_shipped_here_wins_a_clash_and_both_are_named(laboratory: Any, record_of: Any) -> None:
    """A distribution of this project keeps its claim; the stranger's is refused and says whose is used."""
    laboratory.install("one", EMIT.format(name="shared"))
    laboratory.install("two", EMIT.format(name="shared"))
    registry = laboratory.discover(("omn", "omn-two"))
    assert registry.emits["shared"] is record_of(registry, "two").rows["emits"][0]
    assert record_of(registry, "two").state == "loaded"
    assert record_of(registry, "one").state == "clash"
    assert "two's is used" in record_of(registry, "one").reason


@pytest.mark.spec("PLG-4")
def test_a_stranger_cannot_take_an_emit_of_the_core(laboratory: Any, record_of: Any) -> None:
    """The core's own emits, formats and commands stand against any plugin."""
    laboratory.install("taker", EMIT.format(name="summary"))
    registry = laboratory.discover(("omn",))
    assert registry.emits["summary"].reference == "omn_core.emit.summary:SUMMARY"
    assert record_of(registry, "taker").state == "clash"


@pytest.mark.spec("PLG-4")
def test_a_source_claimed_twice_names_both_plugins(laboratory: Any, record_of: Any, entry_text: Any) -> None:
    """Two catalogs that hold one source: neither stranger's entry is used, each record names both."""
    laboratory.install_lab(entry_text() + entry_text({"id": "lab.other"}))
    other = """
    from omn_core.api import hookimpl
    OMN_CONTRACT = "1.0"
    @hookimpl
    def omn_catalog():
        return "omn_lab2"
    """
    laboratory.install("lab2", other, "omn-lab-two", catalog__yaml=entry_text())
    metadata = laboratory.folder / "omn_lab_two-1.0.dist-info" / "entry_points.txt"
    metadata.write_text("[omn.plugins]\nlab = omn_lab2.plugin\n")
    registry, catalog = laboratory.load(("omn",))
    assert "lab.depth" not in catalog.entries
    assert "lab.other" in catalog.entries
    reasons = [record.reason for record in registry.records if record.name == "lab"]
    assert len(reasons) == 2
    assert all("source lab.depth is claimed by lab (omn-lab) and lab (omn-lab-two)" in r for r in reasons)


@pytest.mark.spec("PLG-7")
def test_every_known_word_names_its_distributions() -> None:
    """The data file names, for each word whose plugin may be absent, what to install."""
    known = read_known()
    assert known.find("sources", "sched.offcpu") == ("omn-sched",)
    assert known.find("formats", "pprof") == ("omn-export",)
    assert known.find("commands", "latency") == ("omn-triage",)
    assert known.find("views", "flame") == ("omn-top",)
    assert known.find("methods", "saturate") == ("omn-triage",)
    assert known.find("sources", "nothing.here") == ()
    assert known.find_family("gpu") == "omn-gpu"
    assert known.find_family("nothing") is None


@pytest.mark.spec("PLG-3")
def test_every_installed_plugin_module_imports_no_collector_and_no_numpy() -> None:
    """Importing each plugin.py pulls in the core's api and nothing of its own package beyond itself."""
    script = (
        "import sys, omn_core.api; before = set(sys.modules)\n"
        "from importlib.metadata import entry_points\n"
        "names = [point.value for point in entry_points(group='omn.plugins')]\n"
        "before = set(sys.modules)\n"
        "import importlib\n"
        "for name in names: importlib.import_module(name)\n"
        "new = {m for m in set(sys.modules) - before if m.startswith('omn_')}\n"
        "allowed = {n for name in names for n in (name, name.rpartition('.')[0])}\n"
        "print(sorted(new - allowed), 'numpy' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[0] == "[] False"


@pytest.mark.spec("SEC-3")
def test_discovery_leaves_nothing_in_a_home_that_is_another_users(tmp_path: Path) -> None:
    """Under sudo HOME is somebody else's: neither stevedore's cache nor the catalog's is written there."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's folder")
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 4711, 4711)
    environment = {key: value for key, value in os.environ.items() if key not in ("OMN_CACHE_DIR", "XDG_CACHE_HOME")}
    subprocess.run([sys.executable, "-c", LOAD], env={**environment, "HOME": str(home)}, check=True)
    assert list(home.rglob("*")) == []


@pytest.mark.spec("SEC-3")
def test_the_cache_is_private(tmp_path: Path) -> None:
    """The cache folder is 0700 and what stands in it 0600."""
    environment = {**os.environ, "OMN_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", LOAD], env=environment, check=True)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    found = list((tmp_path / "cache").glob("catalog.*.json"))
    assert {path.stat().st_mode & 0o777 for path in found} == {0o600}


DECLARED = """
import json, sys
from omn_core.installed import find_declared
names = [one.name for one in find_declared("omn.plugins")]
print(json.dumps([names, bool({"stevedore", "importlib.metadata"} & set(sys.modules))]))
"""


def find_anew(folder: Path) -> tuple[set[str], bool]:
    """Return which plugins a process of its own finds, and whether it looked for them."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ran = subprocess.run([sys.executable, "-c", DECLARED], env=environment, capture_output=True, check=True)
    names, has_looked = json.loads(ran.stdout)
    return set(names), has_looked


def test_what_is_installed_is_found_again_when_it_changes(laboratory: Any, tmp_path: Path) -> None:
    """What was found is kept until a distribution comes, changes in place or goes; a spoiled file is passed over."""
    others, _ = find_anew(laboratory.folder)
    assert find_anew(laboratory.folder) == (others, False)
    laboratory.install_lab("")
    assert find_anew(laboratory.folder) == ({*others, "lab"}, True)
    metadata = laboratory.folder / "omn_lab-1.0.dist-info"
    (metadata / "entry_points.txt").write_text("[omn.plugins]\nlaboratory = omn_lab.plugin\n")
    assert find_anew(laboratory.folder) == ({*others, "laboratory"}, True)
    for path in (tmp_path / "cache").glob("plugins-*.json"):
        path.write_text('[["lab"]]')
    assert find_anew(laboratory.folder) == ({*others, "laboratory"}, True)
    assert find_anew(laboratory.folder) == ({*others, "laboratory"}, False)
    shutil.rmtree(metadata)
    assert find_anew(laboratory.folder) == (others, True)


def test_the_version_is_one() -> None:
    """The package, its metadata and the record of the core agree on the version."""
    from importlib.metadata import version

    assert version("omn") == omn_core.__version__
