"""Which file a program's name means, and what is said when it means none."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from omn_core.errors import MachineRefused
from omn_core.run.search import explain_refusal, get_program


def _make(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def _search(monkeypatch: pytest.MonkeyPatch, *folders: object) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))


@pytest.mark.spec("RUN-3")
def test_the_first_executable_file_in_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, and files that may not be executed, are passed over."""
    (tmp_path / "a" / "tool").mkdir(parents=True)
    _make(tmp_path / "b" / "tool", 0o644)
    found = _make(tmp_path / "c" / "tool")
    _make(tmp_path / "d" / "tool")
    _search(monkeypatch, *(tmp_path / name for name in ("none", "a", "b", "c", "d")))
    assert get_program("tool") == found


def test_an_empty_part_of_path_is_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is for a shell."""
    _make(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    _search(monkeypatch, tmp_path / "none", "")
    assert get_program("here") == "./here"


def test_a_name_with_a_slash_is_never_searched_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a path from the current folder."""
    _make(tmp_path / "a" / "tool")
    _search(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path / "a")
    assert get_program("./tool") == "./tool"
    with pytest.raises(MachineRefused, match=r"there is no program 'a/tool'"):
        get_program("a/tool")


def test_without_path_the_system_folders_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """No PATH at all means /bin and /usr/bin."""
    monkeypatch.delenv("PATH")
    assert get_program("sh") == "/bin/sh"


def test_each_way_of_finding_nothing_has_its_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not there, there and not executable, a folder: three sentences."""
    plain = _make(tmp_path / "plain", 0o644)
    _search(monkeypatch, tmp_path)
    with pytest.raises(MachineRefused, match="in no folder of PATH"):
        get_program("absent")
    with pytest.raises(MachineRefused, match="not executable"):
        get_program("plain")
    with pytest.raises(MachineRefused, match="not executable"):
        get_program(plain)
    with pytest.raises(MachineRefused, match="is a folder"):
        get_program(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "number", "sentence"),
    [
        ("#!/no/such/interpreter -x\n", errno.ENOENT, "its interpreter '/no/such/interpreter' does not exist"),
        ("\x7fELF", errno.ENOENT, "the interpreter it names does not exist"),
        ("echo hello\n", errno.ENOEXEC, "no '#!' line"),
        ("#!/bin/sh\n", errno.EACCES, "refused"),
        ("#!/bin/sh\n", errno.E2BIG, "Argument list too long"),
    ],
)
def test_a_refused_exec_says_why(tmp_path: Path, content: str, number: int, sentence: str) -> None:
    """What the kernel answered becomes a sentence about the file."""
    path = tmp_path / "program"
    path.write_text(content)
    assert sentence in str(explain_refusal(str(path), number))
