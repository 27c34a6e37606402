"""The methods of attrs' classes, kept compiled: what comes from the cache is what compiling makes, and no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attr._make
import attrs
import pytest

from omn_core.kept_methods import keep_methods


def make_class() -> Any:
    """Make a class with every method that attrs writes."""

    @attrs.frozen(order=True)
    class Place:
        """A class like omn's own."""

        name: str
        offset: int = attrs.field(default=4, converter=int)

    return Place


def find_kept(folder: Path) -> Path:
    """Return the file of kept methods."""
    (path,) = folder.glob("methods-*")
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("OMN_CACHE_DIR", str(folder))
    return folder


def check_methods(place: Any) -> None:
    """Hold a class to what attrs says of it."""
    assert place("a", "7") == place("a", 7)
    assert place("a") < place("b") <= place("b")
    assert len({place("a"), place("a", 4), place("b")}) == 2
    assert repr(place("a")).endswith("Place(name='a', offset=4)")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        place("a").name = "b"


@pytest.mark.spec("CAT-6")
def test_a_class_made_of_kept_methods_is_as_one_whose_were_compiled(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is made without compiling; after both, attrs compiles as it always did."""
    with keep_methods():
        check_methods(make_class())
    kept = find_kept(cache).stat()
    with monkeypatch.context() as patched:
        patched.setattr("builtins.compile", lambda *_: pytest.fail("what is kept was compiled"))
        with keep_methods():
            made = make_class()
    check_methods(made)
    assert find_kept(cache).stat() == kept
    assert "compile" not in vars(attr._make)


@pytest.mark.spec("CAT-6")
def test_a_start_finds_what_another_kept(omn: Any) -> None:
    """Each process salts its hashes anew, and the file of the one before serves it as it is."""
    kept = []
    for seed in ("1", "2"):
        environment = {**omn.environment(), "PYTHONHASHSEED": seed}
        subprocess.run([*omn.argv, "--help"], stdout=subprocess.DEVNULL, env=environment, check=True)
        kept.append(find_kept(Path(omn.cache)).stat().st_ino)
    assert kept[0] == kept[1]


@pytest.mark.spec("CAT-6", "SEC-3")
@pytest.mark.parametrize("spoiled", ["garbage", "other shape", "truncated", "writable by others", "another user's"])
def test_kept_methods_that_cannot_be_trusted_are_compiled_anew(cache: Path, spoiled: str) -> None:
    """They are replaced, and the class is sound."""
    with keep_methods():
        make_class()
    path = find_kept(cache)
    sound = path.read_bytes()
    if spoiled == "writable by others":
        path.chmod(0o666)
    elif spoiled == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a file to another user")
        os.chown(path, 4711, 4711)
    else:
        path.write_bytes({"garbage": b"\xff", "other shape": b"N", "truncated": sound[: len(sound) // 2]}[spoiled])
    before = path.stat().st_ino
    with keep_methods():
        check_methods(make_class())
    assert find_kept(cache).stat().st_ino != before
    assert sys.flags.optimize or find_kept(cache).read_bytes() == sound
