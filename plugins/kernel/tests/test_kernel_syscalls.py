"""System calls by name: held to the numbers of the compiler's own headers, and to calls that this process makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from omn_kernel.syscalls import name_syscall

LAST = 469
HEADERS = Path("/usr/include/x86_64-linux-gnu/asm")


@pytest.mark.parametrize(("header", "is_compat"), [("unistd_64.h", False), ("unistd_32.h", True)])
def test_names_are_those_of_the_headers(header: str, is_compat: bool) -> None:
    """Every number that they define up to the last that is known here, where they are installed."""
    path = HEADERS / header
    if not path.exists():
        pytest.skip("the compiler's headers are not installed here")
    defined = re.findall(r"#define __NR_(\w+) (\d+)", path.read_text())
    assert len(defined) > 300
    for name, number in defined:
        named = name_syscall(int(number), is_compat=is_compat, machine="x86_64").removeprefix("i386:")
        assert named == name or int(number) > LAST


@pytest.mark.parametrize(
    ("machine", "number", "is_compat", "name"),
    [
        ("x86_64", 0, False, "read"),
        ("x86_64", 334, False, "rseq"),
        ("x86_64", 424, False, "pidfd_send_signal"),
        ("x86_64", 336, False, "uprobe"),
        ("x86_64", 340, False, "syscall_340"),
        ("x86_64", 3, True, "i386:read"),
        ("x86_64", 469, False, "file_setattr"),
        ("aarch64", 63, False, "read"),
        ("aarch64", 173, False, "getppid"),
        ("aarch64", 435, False, "clone3"),
        ("aarch64", 469, False, "file_setattr"),
        ("unheard-of", 0, False, "syscall_0"),
        ("x86_64", -1, False, "syscall_-1"),
    ],
)
def test_a_number_means_what_its_machine_means(machine: str, number: int, is_compat: bool, name: str) -> None:
    """Numbers within a gap, past the last and of machines nobody wrote a table for are named by themselves."""
    assert name_syscall(number, is_compat=is_compat, machine=machine) == name
