"""The user's cache: what is written is read back, and old files of one kind make room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from omn_core.cache import KEPT, read_cached, write_cached


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
