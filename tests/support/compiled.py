"""Small programs compiled on the spot, and what binutils says of a file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def compile_c(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Compile C into a file of a folder. Skips where there is no compiler, or none for the flags' machine."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed here")
    (folder / f"{name}.c").write_text(source)
    path = folder / name
    done = subprocess.run(
        ["gcc", "-o", str(path), str(folder / f"{name}.c"), *flags], capture_output=True, text=True, check=False
    )
    if "-m32" in flags and done.returncode:
        pytest.skip(f"gcc makes no 32-bit program here: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    return path


def compile_cpp(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Compile C++ into a file of a folder. Skips where there is no compiler of it."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed here")
    (folder / f"{name}.cpp").write_text(source)
    path = folder / name
    subprocess.run(["g++", "-o", str(path), str(folder / f"{name}.cpp"), *flags], check=True)
    return path


def run_tool(*command: str) -> str:
    """Run one of binutils and return what it printed. Skips where it is not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="surrogateescape")
    assert done.returncode == 0, done.stderr
    return done.stdout


def list_symbols(path: Path | str, *flags: str) -> list[tuple[int, int, str]]:
    """List what nm says names code: address, size (0 where it prints none), name."""
    symbols = []
    for line in run_tool("nm", "--defined-only", "-S", *flags, str(path)).splitlines():
        fields = line.split(maxsplit=3)
        if len(fields) == 3:
            fields.insert(1, "0")
        address, size, kind, name = fields
        if kind in "tTwWi":
            symbols.append((int(address, 16), int(size, 16), name.partition("@")[0]))
    return symbols
