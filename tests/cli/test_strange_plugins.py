"""Plugins that misbehave in a command of its own: their harm is named and goes no further."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from omn_core.testing.distributions import write_distribution

pytestmark = pytest.mark.spec("PLG-4")

HEAD = "from omn_core.api import CommandRow, hookimpl\nOMN_CONTRACT = '1.0'\n"


def install(folder: Path, body: str) -> dict[str, str]:
    """Install a plugin called odd, and return the environment that finds it."""
    files = {"omn_odd/__init__.py": "", "omn_odd/plugin.py": HEAD + body}
    write_distribution(folder, "omn-odd", files, entry_points={"odd": "omn_odd.plugin"})
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_an_observer_that_exits_does_not_take_the_run_along(omn: Any, tmp_path: Path) -> None:
    """An exit in the middle of a run is that plugin's fault in the notes, and the results stand."""
    environment = install(tmp_path, "@hookimpl\ndef omn_run_event(event):\n    raise SystemExit(9)\n")
    ran = omn("mem.rss", "--format", "json", "--", "true", **environment)
    assert ran.code == 0
    assert any("odd" in note and "SystemExit: 9" in note for note in ran.document["notes"])


def test_what_a_plugin_prints_at_its_import_is_no_part_of_the_answer(omn: Any, tmp_path: Path) -> None:
    """Standard output holds the document alone."""
    environment = install(tmp_path, "print('look at me')\n")
    ran = omn("plugins", "--format", "json", **environment)
    assert (ran.code, ran.stdout[:1], "look at me" in ran.stderr) == (0, b"{", True)


def test_a_catalog_of_a_wrong_type_fails_its_plugin_alone(omn: Any, tmp_path: Path) -> None:
    """omn measures on, and `omn plugins` says whose catalog it is."""
    environment = install(tmp_path, "@hookimpl\ndef omn_catalog():\n    return 5\n")
    assert omn("mem.rss", "--", "true", **environment).code == 0
    said = omn("plugins", **environment).stdout.decode()
    assert "omn_catalog returned 5, not a package's name" in said


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("json:loads", "json:loads is function, no click command"),
        ("omn_odd.broken:command", "the command cannot be imported: on purpose"),
        ("omn_odd.nothing:command", "the command cannot be imported: No module named"),
    ],
)
def test_a_command_that_is_none_is_its_plugins_error(omn: Any, tmp_path: Path, reference: str, said: str) -> None:
    """A row that names no click command ends with the build's code."""
    row = f"    return [CommandRow('odd', '{reference}', 'Do something odd.')]\n"
    environment = install(tmp_path, f"@hookimpl\ndef omn_commands():\n{row}")
    (tmp_path / "omn_odd" / "broken.py").write_text("raise RuntimeError('on purpose')\n")
    ran = omn("odd", **environment)
    assert (ran.code, said in ran.stderr, "Traceback" in ran.stderr) == (3, True, False), ran.stderr


@pytest.mark.spec("CAT-6")
def test_a_cache_of_folders_and_fifos_is_done_without(omn: Any) -> None:
    """Whatever stands in a cached file's place, omn neither fails on it nor waits for it."""
    assert omn("list").code == 0
    names = [path for path in omn.cache.iterdir() if path.is_file()]
    assert names
    for path in names:
        path.unlink()
        path.mkdir()
    assert omn("list").code == 0
    for path in names:
        path.rmdir()
        os.mkfifo(path)
    assert omn("list").code == 0


def test_a_listing_fits_eighty_columns(omn: Any) -> None:
    """Off a terminal no line of the listing is wider."""
    lines = omn("list").stdout.decode().splitlines()
    assert [line for line in lines if len(line) > 80] == []
