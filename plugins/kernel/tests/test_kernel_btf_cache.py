"""The index of the kernel's types as it is kept between runs."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omn_kernel.btf.index import compute_name_hash
from omn_kernel.btf.kernel import NOTES, PATH, parse_index, read_kernel_btf, render_index
from omn_kernel.btf.types import Btf
from omn_kernel.native._bpf import lib
from type_information import FUNC, INT, PROTO, Maker

from omn_core.testing.sysroot import Sysroot

BUILD = b"\x01\x02\x03\x04"


def make_types(*names: str) -> bytes:
    maker = Maker()
    maker.add("int", INT, 4, 32)
    prototype = maker.add("", PROTO, 1)
    for name in names:
        maker.add(name, FUNC, prototype)
    return maker.make()


def write_kernel(sysroot: Sysroot, content: bytes, build: bytes = BUILD) -> None:
    """Let the folder be a machine whose kernel has these types and this build id."""
    sysroot.write(PATH, content)
    sysroot.write(NOTES, struct.pack("<III4s", 4, len(build), 3, b"GNU\0") + build)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Let the cache be in the test's folder, and nothing be known from another test."""
    monkeypatch.setenv("OMN_CACHE_DIR", str(tmp_path / "cache"))
    read_kernel_btf.cache_clear()
    yield tmp_path / "cache" / f"btf-{BUILD.hex()}"
    read_kernel_btf.cache_clear()


def read_again(sysroot: Sysroot) -> Btf:
    """Read as the next run does."""
    read_kernel_btf.cache_clear()
    return read_kernel_btf(str(sysroot))


@pytest.mark.spec("KRN-10", "SEC-3")
def test_the_index_is_kept_by_build_id_for_this_user_alone(
    kept: Path, sysroot: Sysroot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run makes no index: it finds by the one that the first kept."""
    write_kernel(sysroot, make_types("enter", "leave"))
    first = read_again(sysroot)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    monkeypatch.setattr("omn_kernel.btf.indexing.compute_index", None)
    second = read_again(sysroot)
    assert (second.find_function("leave"), len(second)) == (first.find_function("leave"), 4)
    assert second.find_function("come") is None


@pytest.mark.spec("KRN-10")
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other types", "readable to write"])
def test_a_kept_index_that_is_not_this_kernels_is_passed_over_and_replaced(
    kept: Path, sysroot: Sysroot, damage: str
) -> None:
    """Whatever stands there, what is found is what the kernel has, and the next run finds a whole one."""
    write_kernel(sysroot, make_types("enter", "leave"))
    found = read_again(sysroot).find_function("leave")
    whole = kept.read_bytes()
    spoilt = {"cut": whole[:-4], "changed": whole[:-1] + bytes([whole[-1] ^ 1]), "empty": b""}
    other = make_types("leave", "enter", "come")
    kept.write_bytes(spoilt.get(damage, render_index(Btf(other).index, len(other))))
    if damage == "readable to write":
        kept.chmod(0o666)
    assert read_again(sysroot).find_function("leave") == found
    assert kept.read_bytes() == whole


def test_a_kernel_without_a_build_id_keeps_no_index(kept: Path, sysroot: Sysroot) -> None:
    """Nothing would tell its types from another kernel's."""
    sysroot.write(PATH, make_types("enter"))
    assert read_again(sysroot).find_function("enter") == 3
    assert not kept.parent.exists()


@given(st.lists(st.text("abcdefgh_", min_size=1, max_size=40), unique=True, max_size=30))
def test_every_name_is_found_and_no_other(names: list[str]) -> None:
    """The hash that native code computes of all names at once is the one that a search computes of one."""
    types = Btf(make_types(*names))
    index = parse_index(render_index(types.index, 1), 1)
    assert index is not None
    for number, name in enumerate(names, 3):
        assert number in index.iter_candidates(name.encode())
        assert types.find_function(name) == number
        assert (types.find_function(name + "z")) is None
    assert [*index.hashes] == sorted(compute_name_hash(name.encode()) for name in [*names, "int"])


def test_of_types_of_one_name_the_first_is_found() -> None:
    """Whatever their order by hash: a static function of many files is there many times."""
    types = Btf(make_types("again", "other", "again", "again"))
    assert types.find_function("again") == 3
    assert [*types.index.iter_candidates(b"again")] == [3, 5, 6]


def test_a_name_longer_than_the_kernels_is_not_looked_for() -> None:
    """What is before it and behind it is: its bytes are read to a bound, however often it is named."""
    longest = "n" * (lib.OMN_BTF_NAME_BYTES - 1)
    types = Btf(make_types("before", longest, longest + "nn", "behind"))
    assert [types.find_function(name) for name in ("before", longest, longest + "nn", "behind")] == [3, 4, None, 6]


def test_the_running_kernels_kept_index_says_what_a_new_one_does(kept: Path) -> None:
    """Each function that the kernel has is found at one number by both."""
    if not os.path.exists(PATH):
        pytest.skip(f"this kernel has no {PATH}")
    made = read_kernel_btf("/")
    read_kernel_btf.cache_clear()
    again = read_kernel_btf("/")
    assert bytes(made.index.numbers) == bytes(again.index.numbers)
    for name in ("vfs_read", "schedule", "do_exit"):
        assert again.find_function(name) == made.find_function(name)
