"""Shell completion: what is offered where, and that bash, zsh and fish complete with it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from terminals import on_terminal

from omn_core.cli.app import Application
from omn_core.cli.completion import iter_items
from omn_core.plugins import Registry

pytestmark = pytest.mark.spec("REQ-13")


def offered(registry: Registry, *words: str) -> dict[str, str]:
    """Return what could stand in place of the last word: each with its kind."""
    return {item.value: item.type for item in iter_items(Application(registry, words), list(words))}


@pytest.mark.parametrize(
    ("words", "some", "none"),
    [
        (("",), ["mem.rss", "list", "trace"], ["--interval"]),
        (("mem.r",), ["mem.rss"], ["mem.pss", "cpu.util"]),
        (("li",), ["list"], ["mem.rss"]),
        (("trace", "mem.r"), ["mem.rss"], ["list"]),
        (("--dur",), ["--duration"], ["--interval"]),
        (("mem.rss", ""), ["--mode", "--pid", "--"], ["--system", "--cgroup"]),
        (("mem.rss", "--i"), ["--interval", "--input-format"], ["--mode", "--system"]),
        (("mem.rss", "-m", ""), ["poll", "snapshot"], ["count", "trace"]),
        (("mem.faults", "-m", "count", "-e", ""), ["count", "rate"], ["summary"]),
        (("mem.faults", "--mode", "poll", "-e", "s"), ["summary"], ["count"]),
        (("mem.faults", "-m", "poll", "-e", "topk:3@c"), ["topk:3@comm"], ["topk:3@task"]),
        (("mem.faults", "--keys", ""), ["task", "proc", "comm"], ["iface"]),
        (("mem.faults", "--keys", "task,"), ["task,proc", "task,comm"], ["task,task"]),
        (("mem.faults", "--filter", "co"), ["comm"], ["task"]),
        (("mem.rss", "--value", ""), ["rss_bytes"], ["comm"]),
        (("mem.rss", "--backend", "force:"), ["force:fs:proc:statm"], ["fs:proc:statm"]),
        (("mem.rss", "--format=j"), ["json"], ["yaml"]),
        (("mem.rss", "--format", ""), ["text", "json", "ndjson"], []),
        (("mem.rss", "--symbols", ""), ["none", "local", "debuginfod"], []),
        (("mem.rss", "--cost", ""), ["low", "med", "high"], []),
        (("cpu.util", "--cpu", "0,"), [], ["0,0"]),
        (("list", "me"), ["mem", "mem.rss"], ["cpu"]),
        (("list", "--format", ""), ["text", "json"], ["ndjson"]),
        (("help", "val"), ["validate"], []),
        (("catalog", "mem.r"), ["mem.rss"], []),
        (("plugins", ""), ["check"], []),
        (("plugins", "check", ""), ["omn-mem", "omn-kernel"], []),
        (("completion", ""), ["bash", "zsh", "fish"], []),
        (("no.such", "-m", ""), [], ["poll"]),
    ],
)
def test_what_could_stand_there_is_offered(
    registry: Registry, words: tuple[str, ...], some: list[str], none: list[str]
) -> None:
    """Sources and commands first, then options and their values, of the source that was named."""
    found = offered(registry, *words)
    assert set(some) <= found.keys()
    assert not set(none) & found.keys()
    assert all(value.startswith(words[-1].partition("=")[2] if "=" in words[-1] else words[-1]) for value in found)


def test_the_machines_own_names_are_offered(registry: Registry) -> None:
    """Processes by number, interfaces, cpus, and cgroups a level at a time."""
    assert str(os.getpid()) in offered(registry, "mem.rss", "--pid", "")
    assert f"1,{os.getpid()}" in offered(registry, "mem.rss", "--pid", f"1,{os.getpid()}")
    assert "0" in offered(registry, "cpu.util", "--cpu", "")
    assert set(os.listdir("/sys/class/net")) == offered(registry, "net.bytes", "--iface", "").keys()
    groups = offered(registry, "cpu.util", "--cgroup", "/")
    assert all(group.count("/") == 1 for group in groups)


def test_files_and_folders_are_left_to_the_shell(registry: Registry) -> None:
    """The shell knows them better."""
    assert offered(registry, "-f", "ses") == {"ses": "file"}
    assert offered(registry, "mem.rss", "-o", "") == {"": "dir"}


@pytest.fixture
def folder(omn: Any, tmp_path: Path) -> Path:
    """A folder with a script for each shell, and omn by its name on PATH."""
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / f"omn.{shell}").write_bytes(omn("completion", shell).stdout)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "omn").write_text(f'#!/bin/sh\nexec {shlex.join(omn.argv)} "$@"\n')
    (tmp_path / "bin" / "omn").chmod(0o755)
    (tmp_path / "a_program").write_text("#!/bin/sh\n")
    return tmp_path


def find_shell(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed here")
    return path


def environment(omn: Any, folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return dict(omn.environment(PATH=path, TERM="xterm", HOME=str(folder), NO_COLOR="1", PS1="ready> "))


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("omn mem.rs", ["mem.rss"]),
        ("omn mem.rss -m sn", ["snapshot"]),
        ("omn mem.rss --backend force:fs:proc:st", ["fs:proc:statm", "proc:statm", "statm"]),
        ("omn mem.faults -m poll -e topk:3@co", ["comm"]),
        ("omn mem.rss --filter 'comm == \"a b\"' -m sn", ["snapshot"]),
        ("omn mem.rss --format=js", ["json"]),
        ("omn mem.rss -- tru", ["true", "truncate"]),
        ("omn mem.rss -- cat a_pro", None),
        ("omn -f a_pro", None),
    ],
)
def test_bash_is_told(omn: Any, folder: Path, typed: str, completed: list[str] | None) -> None:
    """The function that bash calls leaves in COMPREPLY what goes on from the word as bash broke it (None: files)."""
    script = folder / "ask"
    script.write_text(
        r"""
        source ./omn.bash
        compopt() { echo "option $2"; }
        line=$1
        # Break the line as readline does: at blanks and at the characters of COMP_WORDBREAKS, quotes kept whole.
        COMP_WORDBREAKS=$' \t\n"\'@><=;|&(:'
        mapfile -t COMP_WORDS < <(python3 - "$line" <<'END'
import re, sys
for part in re.findall(r"'[^']*'|[:@=]|[^\s:@=']+|\s+$", sys.argv[1]):
    print(part.strip())
END
        )
        COMP_LINE=$line COMP_POINT=${#line} COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _omn_complete
        printf '%s\n' "${COMPREPLY[@]}"
        """
    )
    ran = subprocess.run(
        [find_shell("bash"), "--norc", str(script), typed],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(omn, folder),
        check=True,
    )
    found = ran.stdout.split("\n")
    assert ran.stderr == ""
    if completed is None:
        assert "option default" in found
    else:
        assert set(found) & set(completed)


def type_and_run(omn: Any, folder: Path, argv: list[str], setup: str) -> str:
    """Type setup, then a command completed twice with the tabulator; return what the shell and omn wrote."""
    with on_terminal(argv, environment(omn, folder), cwd=folder, columns=160) as terminal:
        terminal.type(f"{setup}; echo set''up\r")
        terminal.read_until(b"setup\r\n")
        terminal.type("omn mem.rs\t")
        terminal.read_until(b"mem.rss")
        terminal.type("-m sn\t")
        terminal.read_until(b"snapshot")
        terminal.type("-e summary --pid 1 --dump-request --no-resolve; echo do''ne\r")
        written = terminal.read_until(b"done\r\n")
        terminal.type("exit\r")
    return written.decode()


def test_bash_completes_as_one_types(omn: Any, folder: Path) -> None:
    """In an interactive bash the tabulator writes the source and the mode, and the command runs as completed."""
    written = type_and_run(omn, folder, [find_shell("bash"), "--norc", "-i"], "source ./omn.bash")
    assert '"source": "mem.rss"' in written
    assert '"mode": "snapshot"' in written


def test_zsh_completes_as_one_types(omn: Any, folder: Path) -> None:
    """The same in zsh, with its completion system on."""
    setup = "autoload -U compinit; compinit -D -u; source ./omn.zsh"
    written = type_and_run(omn, folder, [find_shell("zsh"), "-f", "-i"], setup)
    assert '"source": "mem.rss"' in written
    assert '"mode": "snapshot"' in written


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("omn mem.rs", "mem.rss\tResident set size of a process"),
        ("omn mem.rss -m sn", "snapshot\temits summary, raw"),
        ("omn mem.rss --backend force:fs:proc:st", "force:fs:proc:statm\tcost free"),
        ("omn mem.faults -m poll -e topk:3@co", "topk:3@comm\ttext"),
        ("omn mem.rss -- cat a_pro", "a_program"),
        ("omn -f a_pro", "a_program"),
    ],
)
def test_fish_completes(omn: Any, folder: Path, typed: str, completed: str) -> None:
    """Asked for the completions of a line, fish answers with omn's words and their meanings."""
    ran = subprocess.run(
        [find_shell("fish"), "--no-config", "-c", 'source ./omn.fish; complete -C "$argv[1]"', typed],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(omn, folder),
        check=True,
    )
    assert completed in [line.rstrip("\t") for line in ran.stdout.splitlines()], ran.stdout + ran.stderr


def test_the_words_are_printed_a_line_each(omn: Any) -> None:
    """The kind, the word and its meaning, tabs between: what the scripts read."""
    ran = omn("completion", "bash", "--", "mem.rss", "-m", "sn")
    assert (ran.code, ran.stdout, ran.stderr) == (0, b"plain\tsnapshot\temits summary, raw\n", "")


def test_the_scripts_are_printed_alone(omn: Any) -> None:
    """Nothing but the script, and a word that is no shell is refused with those that are."""
    assert omn("completion", "bash").stdout.startswith(b"# bash completion for omn")
    ran = omn("completion", "tcsh")
    assert ran.code == 2
    assert "bash" in ran.stderr
