"""Whether a program keeps frame pointers: what compilers make with and without them, and what is no program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from call_trees import LIBRARY, PROGRAM
from compiled import compile_c, run_tool
from omn_kernel.elf.source import ElfError
from omn_kernel.unwind.choosing import DWARF, FP, FP_LEAF
from omn_kernel.unwind.frame_pointers import keeps_frame_pointer, read_frame_pointers

from omn_core.api import ProbeContext, Target

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked on x86-64 alone")


def build(folder: Path, *flags: str) -> Path:
    library = compile_c(folder, "libback.so", LIBRARY, "-shared", "-fPIC", *flags)
    return compile_c(folder, "calls", PROGRAM, *flags, str(library), "-pthread")


@pytest.mark.spec("STK-1")
@pytest.mark.parametrize(("flag", "kept"), [("-fno-omit-frame-pointer", True), ("-fomit-frame-pointer", False)])
def test_a_program_is_told_by_how_its_functions_begin(flag: str, kept: bool, tmp_path: Path) -> None:
    """By its main, and without a table of symbols by how many of its functions set a frame pointer up."""
    program = build(tmp_path, "-O2", flag)
    found = read_frame_pointers(str(program))
    assert found is not None
    assert (found.main, found.are_kept) == (kept, kept)
    assert found.functions > 10
    run_tool("strip", str(program))
    bare = read_frame_pointers(str(program))
    assert bare is not None
    assert (bare.main, bare.are_kept, bare.functions) == (None, kept, found.functions)


@pytest.mark.spec("STK-1")
def test_a_script_is_the_program_that_its_first_line_names(tmp_path: Path) -> None:
    """A text that names none is no program, and what is not there cannot be read."""
    program = build(tmp_path, "-O2", "-fno-omit-frame-pointer")
    script = tmp_path / "script"
    script.write_text(f"#! {program} plain\n")
    found = read_frame_pointers(str(script))
    assert found is not None
    assert found.main
    script.write_text("no program\n")
    with pytest.raises(ElfError):
        read_frame_pointers(str(script))
    with pytest.raises(FileNotFoundError):
        read_frame_pointers(str(tmp_path / "nothing"))


ALONE = ("-nostdlib", "-static", "-no-pie", "-Wl,-e,main")
"""Without the C library, of which few machines have one for 32 bits."""


@pytest.mark.spec("STK-1", "STK-5")
def test_a_program_of_32_bits_is_walked_by_the_kernel(tmp_path: Path) -> None:
    """Its code is not followed here: what copies registers does not suit it, in a clause."""
    program = compile_c(tmp_path, "narrow", "int main(void) { return 0; }", "-m32", *ALONE)
    assert read_frame_pointers(str(program)) is None
    target, context = Target("launch", (str(program),)), ProbeContext("launch")
    assert [walk.find_misfit(target, context, "sample") for walk in (FP_LEAF, DWARF, FP)] == [
        "it is no x86-64 program"
    ] * 2 + [None]


@pytest.mark.spec("STK-1")
def test_a_running_process_is_told_by_what_it_executes() -> None:
    """And a file that cannot be read leaves the walk that needs no frame pointers."""
    target = Target("pid", (os.getpid(),))
    found = FP_LEAF.find_misfit(target, ProbeContext("pid"), "sample")
    own = read_frame_pointers("/proc/self/exe")
    assert own is not None
    assert found == (None if own.are_kept else own.describe())
    gone = Target("launch", ("/nowhere",))
    assert str(FP_LEAF.find_misfit(gone, ProbeContext("launch"), "sample")).startswith(
        "whether it keeps frame pointers cannot"
    )
    assert DWARF.find_misfit(gone, ProbeContext("launch"), "sample") is None
    assert "at each event" in str(DWARF.find_misfit(gone, ProbeContext("launch"), "trace"))


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("554889e5", True),
        ("f30f1efa554889e5", True),
        ("55488bec", True),
        ("5589f34889e5", True),  # an instruction between the two
        ("83ff017e10554889e5", True),  # a test that leaves early
        ("83ff017e10558d47fe4889e5", True),  # both
        ("55534883ec184889e5", False),  # it points to what there is room for
        ("534889e5", False),
        ("55534883ec08c3", False),
        ("", False),
    ],
)
def test_a_prologue_is_known_by_its_two_instructions(code: str, kept: bool) -> None:
    """The old pointer is pushed first, and the stack's taken for it soon after."""
    assert keeps_frame_pointer(bytes.fromhex(code)) is kept
