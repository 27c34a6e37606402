"""Stacks of running programs, walked every way: held to calls that are known by construction."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from call_trees import compile_calls, drop_marks, list_outward
from closed_events import hold_served
from compiled import compile_c

from omn_core.testing.fixtures import Command

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked on x86-64 alone")

START = ("__libc_start_call_main", "__libc_start_main@@GLIBC_2.34", "_start")
LIBRARY = ("through", "called_back", "in_library")
RAISED = ("__restore_rt", "__pthread_kill_implementation", "raise")
BEGUN = ("start_thread", "clone3")
PLAIN = ("burn", "task", "plain", "main")
HZ = "3989"


def profile(omn: Command, walk: str, program: Path, *words: str) -> Any:
    """Profile the program and return its result."""
    emits = ("-e", "stack", "-e", "raw")
    done = omn("cpu.profile", *emits, "--stack", walk, "--hz", HZ, "--format", "json", "--", str(program), *words)
    hold_served(done.code, done.stderr)
    return done.result


@pytest.fixture(scope="module")
def omitting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program built without frame pointers."""
    return compile_calls(tmp_path_factory.mktemp("omitting"), "-O2", "-fomit-frame-pointer")


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program built with frame pointers, but in functions that call nobody."""
    flags = ("-O2", "-fno-omit-frame-pointer", "-momit-leaf-frame-pointer")
    return compile_calls(tmp_path_factory.mktemp("keeping"), *flags)


@pytest.mark.spec("STK-2")
def test_dwarf_finds_every_caller_of_code_without_frame_pointers(omitting: Path, omn: Command) -> None:
    """Each sample of the function that burns has these callers, out to the very first: plainly, over a shared library,
    over a signal's frame, in threads of a pool, and in a child that was made by vfork and executed another program."""
    result = profile(omn, "dwarf", omitting, "plain", "library", "signal", "pool", "child")
    assert set(list_outward(result, "burn")) == {
        (*PLAIN, *START),
        ("burn", "task", *LIBRARY, "main", *START),
        ("burn", "task", "on_signal", *RAISED, "signalled", "main", *START),
        ("burn", "task", "plain", "job", *BEGUN),
    }
    rows = result["raw"]
    burning = {row["attrs"]["pid"] for row in rows if tuple(row["stack"][-len(PLAIN) - 3 :]) == (*PLAIN, *START)}
    assert len(burning) == 2


@pytest.mark.spec("STK-2")
def test_dwarf_follows_linkage_entries_and_the_vdso(omitting: Path, omn: Command) -> None:
    """Calls bound by the loader stand in their own frames, and the kernel's code in the program in its own."""
    result = profile(omn, "dwarf", omitting, "linkage", "vdso")
    outward = list_outward(result, "in_linkage") + list_outward(result, "in_vdso")
    assert set(outward) == {("in_linkage", "main", *START), ("in_vdso", "main", *START)}
    inward = list_outward(result, "abs") + list_outward(result, "__vdso_clock_gettime")
    calls = ("through", "called_back", "in_linkage", "main", *START)
    assert set(inward) <= {
        ("abs", *calls),
        ("abs", "abs@plt", *calls),
        ("__vdso_clock_gettime", "clock_gettime@@GLIBC_2.17", "in_vdso", "main", *START),
    }
    assert len(inward) >= 2
    assert list_outward(result, "called_back@plt") == [("called_back@plt", "in_linkage", "main", *START)]


@pytest.mark.spec("STK-2")
def test_a_recursion_deeper_than_the_copy_is_cut_and_said(omitting: Path, keeping: Path, omn: Command) -> None:
    """What is there is right, none of it reaches main, and the answer counts what is cut: by the copy's bytes in dwarf,
    by the kernel's frames in a chain of frame pointers."""
    for walk, program, limit in (("dwarf", omitting, "8192 bytes"), ("fp+leaf", keeping, "127 frames")):
        result = profile(omn, walk, program, "deep")
        for stack in drop_marks(list_outward(result, "burn")):
            assert stack[:3] == ("burn", "task", "plain")
            assert set(stack[3:]) == {"descend"}
        cut = result["fields"]["cut_stacks"]
        assert cut > 10
        said = next(one for one in result["degraded"] if "are cut" in one)
        assert said.startswith(f"{cut} of ")
        assert limit in said


@pytest.mark.spec("STK-2", "STK-7")
def test_code_that_a_runtime_made_ends_a_walk_and_is_never_stepped_over(
    omitting: Path, keeping: Path, omn: Command
) -> None:
    """Dwarf knows nothing of who called it and says so; a chain of frame pointers goes through, and shows it too."""
    result = profile(omn, "dwarf", omitting, "generated")
    assert list_outward(result, "burn") == [("burn", "task", "[anon]")]
    assert any("end where the code does not say who called it" in one for one in result["degraded"])
    result = profile(omn, "fp+leaf", keeping, "generated")
    assert {stack[:3] for stack in drop_marks(list_outward(result, "burn"))} == {("burn", "task", "[anon]")}


@pytest.mark.spec("STK-1", "STK-7")
def test_the_caller_of_a_leaf_is_recovered_where_frame_pointers_pass_it_over(keeping: Path, omn: Command) -> None:
    """A function that calls nobody has set no frame pointer up: its caller is in every stack, marked; without the
    leaf's own rule it is in none. The rest was walked, and has no mark."""
    words = ("plain", "library", "pool")
    result = profile(omn, "auto", keeping, *words)
    assert result["stacks"]["walk"] == "fp+leaf"
    callers = {("plain", "main", START[0]), (*LIBRARY, "main", START[0]), ("plain", "job", BEGUN[0])}
    assert set(list_outward(result, "burn")) == {("burn", "task [recovered]", *one) for one in callers}
    assert result["fields"]["recovered_frames"] > 10
    plain = profile(omn, "fp", keeping, *words)
    assert set(list_outward(plain, "burn")) == {("burn", *one) for one in callers}


@pytest.mark.spec("STK-1")
def test_auto_takes_what_suits_the_program_and_says_why(omitting: Path, keeping: Path, omn: Command) -> None:
    """Frame pointers where the program keeps them, its unwind information where it does not, and of the machine, where
    anything may run, frame pointers."""
    by_code = profile(omn, "auto", omitting, "plain")["stacks"]
    assert by_code["walk"] == "dwarf"
    passed = next(one for one in by_code["chain"] if one["walk"] == "fp+leaf")
    assert (passed["state"], passed["reason"][:32]) == ("target", "its main keeps no frame pointer,")
    dumped = omn("cpu.profile", "--system", "-d", "1s", "--dump-resolved", "--format", "json")
    resolved = dumped.document["requests"][0]["stacks"]
    assert resolved["walk"] == "fp"
    states = {one["walk"]: (one["state"], one["reason"]) for one in resolved["chain"]}
    assert states["dwarf"] == states["fp+leaf"] == ("target", "what runs there is not known before")


USED_OTHERWISE = r"""
#include <stdint.h>
uint64_t liar_begin(void);
void *frame[2];
int work(long n);
__asm__(".globl work\nwork:\n.cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n"
        "lea frame(%rip), %rbp\n1: dec %rdi\njnz 1b\npop %rbp\n.cfi_def_cfa_offset 8\nxor %eax, %eax\nret\n"
        ".cfi_endproc\n");
__attribute__((noinline)) void liar(void) { __asm__ volatile("nop\nnop\nnop\nnop\nnop\nnop\nnop\nnop"); }
int main(void)
{
    frame[1] = (char *)liar + 4;
    return work(100000000) + 1;
}
"""


@pytest.mark.spec("STK-7")
def test_a_chain_behind_a_register_of_other_use_is_left_out(tmp_path: Path, omn: Command) -> None:
    """The kernel reads a caller from wherever the register points, and names one that never called. With the code's own
    rule its caller is there, and nothing behind it is made up."""
    program = compile_c(tmp_path, "used", USED_OTHERWISE, "-O2", "-fno-omit-frame-pointer")
    assert list_outward(profile(omn, "fp", program), "work") == [("work", "liar")]
    result = profile(omn, "fp+leaf", program)
    assert ("work", "main [recovered]") in list_outward(result, "work")
    assert not any("liar" in stack for stack in list_outward(result, "work"))
    assert result["fields"]["unfinished_stacks"] > 10
