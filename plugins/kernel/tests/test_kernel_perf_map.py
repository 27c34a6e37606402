"""Perf maps: what a line names, which file is believed, and how it is read while it grows."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omn_kernel.symbols.identity import Identity, find_identity
from omn_kernel.symbols.perf_map import PerfMap, keep_latest


def identify(owner: int | None = None, begun_ns: int = 0) -> Identity:
    return Identity(1, 1, os.geteuid() if owner is None else owner, begun_ns)


def ask(perf_map: PerfMap, *addresses: int) -> list[bytes | None]:
    perf_map.read_growth()
    return [
        None if one < 0 else perf_map.list_names(np.array([one]))[0]
        for one in perf_map.find(np.array(addresses, np.uint64)).tolist()
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf-1.map"


@pytest.mark.spec("STK-3")
def test_a_line_names_its_range_with_all_that_follows_the_size(path: Path) -> None:
    """Spaces, semicolons and bytes of no encoding belong to the name; with or without 0x."""
    path.write_bytes(b"1000 10 a;b c 7\n0x2000 0x20 \xff\x01\n")
    perf_map = PerfMap((str(path),), identify())
    assert ask(perf_map, 0xFFF, 0x1000, 0x100F, 0x1010, 0x2000, 0x201F, 0x2020) == [
        None, b"a;b c 7", b"a;b c 7", None, b"\xff\x01", b"\xff\x01", None,
    ]  # fmt: skip
    perf_map.close()


@pytest.mark.spec("STK-3", "STK-7")
def test_a_map_is_read_as_it_grows_and_a_line_half_written_is_left_for_later(path: Path) -> None:
    """A later line over an earlier range drops it whole: the code was generated anew."""
    perf_map = PerfMap((str(path),), identify())
    assert ask(perf_map, 0x1000) == [None]
    with path.open("ab", buffering=0) as file:
        file.write(b"1000 100 old\n2000 10 ot")
        assert ask(perf_map, 0x1000, 0x10F0, 0x2000) == [b"old", b"old", None]
        file.write(b"her\n1080 10 new\n")
        assert ask(perf_map, 0x1000, 0x1080, 0x10F0, 0x2000) == [None, b"new", None, b"other"]
    perf_map.close()


@pytest.mark.spec("STK-3")
def test_a_map_that_is_deleted_once_it_was_seen_still_names(path: Path) -> None:
    """It is held by its descriptor."""
    path.write_bytes(b"1000 10 f\n")
    perf_map = PerfMap((str(path),), identify())
    assert ask(perf_map, 0x1000) == [b"f"]
    path.unlink()
    assert ask(perf_map, 0x1000) == [b"f"]
    perf_map.close()
    assert not perf_map.is_open


@pytest.mark.spec("STK-7")
def test_a_map_that_is_written_anew_is_read_from_its_start(path: Path) -> None:
    """What comes is later than what was."""
    path.write_bytes(b"1000 10 first\n2000 10 stays\n")
    perf_map = PerfMap((str(path),), identify())
    assert ask(perf_map, 0x1000) == [b"first"]
    path.write_bytes(b"1000 10 again\n")
    assert ask(perf_map, 0x1000, 0x2000) == [b"again", b"stays"]
    perf_map.close()


@pytest.mark.spec("STK-3", "SEC-4")
def test_a_map_that_is_not_the_processs_own_is_not_believed(path: Path, tmp_path: Path) -> None:
    """Another user's, one planted before the process began, a link, a fifo: each is refused and says why."""
    path.write_bytes(b"1000 10 planted\n")
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        refused = PerfMap((str(path),), identify(owner=54321))
        assert ask(refused, 0x1000) == [None]
        assert refused.refusal == "user 12345 owns it, and the process runs as user 54321"
        os.chown(path, 0, -1)
        assert ask(PerfMap((str(path),), identify(owner=54321)), 0x1000) == [b"planted"]
    late = PerfMap((str(path),), identify(begun_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 10**9))
    assert ask(late, 0x1000) == [None]
    assert late.refusal == "it was last written before the process began"
    (tmp_path / "link").symlink_to(path)
    linked = PerfMap((str(tmp_path / "link"),), identify())
    assert ask(linked, 0x1000) == [None]
    assert linked.refusal is not None
    os.mkfifo(tmp_path / "fifo")
    fifo = PerfMap((str(tmp_path / "fifo"),), identify())
    assert ask(fifo, 0x1000) == [None]
    assert fifo.refusal == "it is no regular file"


def test_who_this_process_is() -> None:
    """Its pid, its user, and a begin that is not after now."""
    identity = find_identity("/", os.getpid())
    assert identity is not None
    assert (identity.pid, identity.owner) == (os.getpid(), os.geteuid())
    assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) - identity.begun_ns > 0
    assert find_identity("/", 1 << 22) is None


@pytest.mark.spec("SEC-4")
def test_a_map_is_read_to_a_bound(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past it nothing is read, what was read names, and it is said."""
    monkeypatch.setattr("omn_kernel.symbols.perf_map._MOST_LINES", 10)
    path.write_bytes(b"".join(b"%x 10 f%d\n" % (0x1000 + 16 * one, one) for one in range(50)))
    perf_map = PerfMap((str(path),), identify())
    assert ask(perf_map, 0x1000, 0x1000 + 16 * 20) == [b"f0", None]
    assert perf_map.refusal is not None
    assert "10 lines" in perf_map.refusal
    perf_map.close()


@pytest.mark.spec("SEC-4")
@settings(max_examples=200)
@given(content=st.lists(st.one_of(st.binary(max_size=40), st.from_regex(rb"[0-9a-f]{1,20} [0-9a-f]{1,20} .*"))))
def test_any_bytes_are_a_map(content: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Lines that are none are left out: nothing is raised, and every answer is a line's."""
    path = tmp_path_factory.mktemp("maps") / "perf-1.map"
    path.write_bytes(b"\n".join(content))
    perf_map = PerfMap((str(path),), identify())
    assert len(ask(perf_map, 0, 0x1000, (1 << 64) - 1)) == 3
    perf_map.close()


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=30)


@pytest.mark.spec("STK-7")
@settings(max_examples=400)
@given(RANGES)
def test_a_range_is_kept_when_no_later_one_overlaps_it(ranges: list[tuple[int, int]]) -> None:
    """Against every pair."""
    starts = np.array([start for start, _ in ranges], np.uint64)
    ends = np.array([start + size for start, size in ranges], np.uint64)
    truth = {
        one
        for one in range(len(ranges))
        if not any(starts[one] < ends[later] and starts[later] < ends[one] for later in range(one + 1, len(ranges)))
    }
    kept_starts, _, numbers = keep_latest(starts, ends)
    assert set(numbers.tolist()) == truth
    assert (np.diff(kept_starts.astype(np.int64)) > 0).all()
