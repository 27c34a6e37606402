"""The user's cache: what is written is read back, and old files of one kind make room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omn_core.cache import KEPT, fill_cached, open_cached, read_cached, write_cached


@pytest.mark.spec("CAT-6")
def test_the_oldest_of_a_kind_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest stay, however many contents were cached; files of another kind are left alone."""
    monkeypatch.setenv("OMN_CACHE_DIR", str(tmp_path))
    write_cached("types-1.bin", b"another kind")
    for number in range(KEPT + 3):
        write_cached(f"catalog-{number}.json", str(number).encode())
        os.utime(tmp_path / f"catalog-{number}.json", ns=(number, number))
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"types-1.bin", *(f"catalog-{number}.json" for number in range(3, KEPT + 3))}
    assert read_cached("catalog-10.json") == b"10"
    assert read_cached("catalog-0.json") is None


@pytest.mark.spec("STK-8")
def test_a_large_file_is_kept_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filled a part at a time: what was kept is read back, what was not leaves nothing, the oldest make room."""
    monkeypatch.setenv("OMN_CACHE_DIR", str(tmp_path))
    for number in range(4):
        with fill_cached(f"large-{number}", 250) as (file, keep):
            file.write(b"x" * 50)
            file.write(b"y" * 50)
            keep()
        os.utime(tmp_path / f"large-{number}", ns=(number, number))
    with fill_cached("large-9", 250) as (file, _):
        file.write(b"z")
    assert {path.name for path in tmp_path.iterdir()} == {"large-2", "large-3"}
    kept = open_cached("large-3")
    assert kept is not None
    with kept:
        assert kept.read() == b"x" * 50 + b"y" * 50
    monkeypatch.setenv("OMN_CACHE_DIR", "/proc/nothing")
    with fill_cached("large-1", 250) as (file, keep):
        file.write(b"x")
        keep()
    assert open_cached("large-1") is None
