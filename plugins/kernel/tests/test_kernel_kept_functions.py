"""The kernel's functions as they are kept between runs."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omn_kernel.symbols.kernel import PATH, KernelFunctions, parse_kallsyms, read_kernel_symbols
from omn_kernel.symbols.kernel_kept import BOOT, MODULES

from omn_core.testing.sysroot import Sysroot

IMAGE = "ffffffff81000000 T first\nffffffff81000000 t alias\nffffffff81000010 d data\nffffffff81000020 t second\n"
MODULE = "ffffffffa0000100 t start\t[one]\n"
GENERATED = "ffffffffc0000000 t bpf_prog_1\t[bpf]\nffffffffc0001000 t jump\t[__builtin__ftrace]\n"
LOADED = "one 16384 2 two, Live 0xffffffffa0000000\n"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sysroot: Sysroot) -> Path:
    """A machine that was booted, and the folder in which its functions are kept."""
    monkeypatch.setenv("OMN_CACHE_DIR", str(tmp_path / "cache"))
    sysroot.write(BOOT, "5a43f7a1-0000-4000-8000-000000000001\n")
    sysroot.write(MODULES, LOADED)
    sysroot.write(PATH, IMAGE + MODULE + GENERATED)
    return tmp_path / "cache"


def read(sysroot: Sysroot) -> KernelFunctions:
    functions = read_kernel_symbols(str(sysroot))
    assert functions is not None
    return functions


def name(functions: KernelFunctions, *addresses: int) -> list[bytes | None]:
    """Name addresses that are told by their lower half."""
    found = functions.find(np.array([0xFFFFFFFF00000000 + one for one in addresses], np.uint64)).tolist()
    return [None if one < 0 else functions.list_names(np.array([one]))[0] for one in found]


@pytest.mark.spec("STK-3", "SEC-3")
def test_functions_are_kept_for_this_user_alone_and_named_as_before(kept: Path, sysroot: Sysroot) -> None:
    """The second run reads the file for what is in no function that was kept, and names the rest without it."""
    asked = (0x81000000, 0x8100000F, 0x81000010, 0x81000FFF, 0xA0000100, 0xA0001000)
    first = name(read(sysroot), *asked)
    assert first == [b"first", b"first", None, b"second", b"start", None]
    (path,) = kept.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = read(sysroot)
    sysroot.write(PATH, "nothing that is a symbol\n")
    assert name(again, *asked) == first
    number = int(again.find(np.array([0xFFFFFFFF81000FFF], np.uint64))[0])
    assert (again.list_starts(np.array([number]))[0], again.list_sources(np.array([number]))[0]) == (
        0xFFFFFFFF81000020,
        "kallsyms",
    )


@pytest.mark.spec("STK-3")
def test_what_the_kernel_makes_as_it_runs_is_read_anew(kept: Path, sysroot: Sysroot) -> None:
    """An eBPF program that came in another's place has its own name, beside functions that were kept."""
    beginning = "".join(f"{0xFFFFFFFF81001000 + 16 * at:016x} t part_of_the_image_{at}\n" for at in range(200))
    sysroot.write(PATH, beginning + MODULE + GENERATED)
    asked = (0x81001000, 0xC0000000, 0xC0001000)
    assert name(read(sysroot), *asked) == [b"part_of_the_image_0", b"bpf_prog_1", b"jump"]
    sysroot.write(PATH, beginning + MODULE + GENERATED.replace("bpf_prog_1", "bpf_prog_2"))
    again = read(sysroot)
    assert name(again, *asked) == [b"part_of_the_image_0", b"bpf_prog_2", b"jump"]
    number = int(again.find(np.array([0xFFFFFFFFC0001000], np.uint64))[0])
    assert (again.list_starts(np.array([number]))[0], again.list_sources(np.array([number]))[0]) == (
        0xFFFFFFFFC0001000,
        "kallsyms",
    )
    assert len(list(kept.iterdir())) == 1


def test_where_threads_wait_is_kept_with_the_functions(kept: Path, sysroot: Sysroot) -> None:
    """The bounds of the scheduler's functions are symbols that name nothing, and are known all the same."""
    bounds = (0xFFFFFFFF81000100, 0xFFFFFFFF81000300)
    marks = "".join(f"{at:016x} T __sched_text_{name}\n" for at, name in zip(bounds, ("start", "end"), strict=True))
    sysroot.write(PATH, f"{bounds[0]:016x} T schedule\n{marks}" + MODULE)
    assert read(sysroot).waiting == range(*bounds)
    assert list(kept.iterdir())
    assert read(sysroot).waiting == range(*bounds)
    assert name(read(sysroot), 0x81000100) == [b"schedule"]


def boot_again(sysroot: Sysroot) -> None:
    sysroot.write(BOOT, "5a43f7a1-0000-4000-8000-000000000002\n")


def load_another_module(sysroot: Sysroot) -> None:
    sysroot.write(MODULES, LOADED.replace("0xffffffffa0000000", "0xffffffffa0100000"))


def hide_addresses(sysroot: Sysroot) -> None:
    sysroot.write(PATH, "0000000000000000 T first\n0000000000000000 t second\n")


def know_no_boot(sysroot: Sysroot) -> None:
    sysroot.path(BOOT).unlink()


@pytest.mark.spec("STK-3", "SEC-3")
@pytest.mark.parametrize("change", [boot_again, load_another_module, hide_addresses, know_no_boot])
def test_functions_of_another_boot_or_of_other_modules_are_not_taken(
    kept: Path, sysroot: Sysroot, change: Callable[[Sysroot], None]
) -> None:
    """Nor those that another could see by who sees zeros; how often a module is used changes nothing."""
    read(sysroot)
    sysroot.write(MODULES, LOADED.replace("2 two,", "3 two,three,"))
    read(sysroot)
    assert len(list(kept.iterdir())) == 1
    sysroot.write(PATH, (IMAGE + MODULE + GENERATED).replace("second", "later"))
    change(sysroot)
    found = read_kernel_symbols(str(sysroot))
    if change is hide_addresses:
        assert found is None
    else:
        assert found is not None
        assert name(found, 0x81000020) == [b"later"]


@pytest.mark.spec("STK-3")
@pytest.mark.parametrize(
    "damage", [lambda kept: b"", lambda kept: kept[:-1], lambda kept: kept[:40] + b"x" + kept[41:]]
)
def test_kept_functions_that_are_not_whole_are_passed_over_and_replaced(
    kept: Path, sysroot: Sysroot, damage: Callable[[bytes], bytes]
) -> None:
    """Cut short, empty, or changed in one byte."""
    read(sysroot)
    (path,) = kept.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert name(read(sysroot), 0x81000000) == [b"first"]
    assert path.read_bytes() == whole


@pytest.mark.spec("STK-3")
def test_the_running_kernels_kept_functions_are_those_of_a_new_reading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At the start, in the middle and before the start of each one of a sample."""
    monkeypatch.setenv("OMN_CACHE_DIR", str(tmp_path / "cache"))
    fresh = read_kernel_symbols("/")
    parsed = parse_kallsyms(Path(PATH).read_bytes())
    if fresh is None or parsed is None:
        assert not (tmp_path / "cache").exists()
        return
    kept = read_kernel_symbols("/")
    assert kept is not None
    starts = parsed.list_lasting().start[::97]
    for address in (starts, starts + np.uint64(5), starts - np.uint64(1)):
        found, numbers = fresh.find(address), kept.find(address)
        assert [one < 0 for one in found.tolist()] == [one < 0 for one in numbers.tolist()]
        pairs = [pair for pair in zip(found.tolist(), numbers.tolist(), strict=True) if pair[0] >= 0]
        assert [fresh.list_names(np.array([one]))[0] for one, _ in pairs] == [
            kept.list_names(np.array([one]))[0] for _, one in pairs
        ]
        assert [fresh.list_starts(np.array([one]))[0] for one, _ in pairs] == [
            kept.list_starts(np.array([one]))[0] for _, one in pairs
        ]
