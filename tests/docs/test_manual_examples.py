"""Every example of the manual and the README is run."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from manual import PAGES, ROOT, find_mismatch, iter_blocks, iter_examples


@pytest.fixture
def shell(omn: Any, tmp_path: Path) -> Any:
    """A folder to run a page's commands in, one after another, with `omn` on PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "omn").write_text(f'#!/bin/sh\nexec {shlex.join(omn.argv)} "$@"\n')
    (tools / "omn").chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    environment = omn.environment()
    environment["PATH"] = f"{tools}:{environment['PATH']}"

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )

    return run


LATE = "rounds late"
"""What an answer says of a machine that did other things when a reading was due."""
MOST_RUNS = 5


def run_on_time(shell: Any, command: str, shown: str) -> Any:
    """Run a command, and again where the machine kept its readings from their time and the page shows none of that."""
    ran = shell(command)
    for _ in range(MOST_RUNS - 1):
        if LATE in shown or LATE not in ran.stdout:
            break
        ran = shell(command)
    return ran


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_example_of_a_page_prints_what_the_page_shows(page: Path, shell: Any) -> None:
    """Each command ends with the exit code beside it and prints the words below it, numbers apart."""
    for example in iter_examples(page.read_text()):
        ran = run_on_time(shell, example.command, example.shown)
        where = f"{page.name}:{example.line}: {example.command}\n{ran.stdout}"
        assert ran.returncode == example.code, where
        assert find_mismatch(example.shown, ran.stdout) is None, where


def test_the_readme_shows_what_its_first_command_prints(shell: Any) -> None:
    """The answer below the first command is the one that the command prints, numbers apart."""
    readme = (ROOT / "README.md").read_text()
    (_, command), _ = iter_blocks(readme, "sh")
    (_, shown), *_ = iter_blocks(readme, "text")
    ran = run_on_time(shell, command.partition(" && ")[2], shown)
    assert ran.returncode == 0, ran.stdout
    assert find_mismatch(shown, ran.stdout) is None, ran.stdout


def test_a_page_that_shows_other_words_is_found_out() -> None:
    """The comparison sees a missing word, a wrong beginning and a wrong end, and no difference in a number."""
    printed = "window  1.2 ms, 3 events\nmax 212.8 MiB\n"
    assert find_mismatch("window 9 s, 41 events\n...\n", printed) is None
    assert find_mismatch("...\nmax  1 B\n", printed) is None
    assert find_mismatch("max 1 MiB\n...", printed) is not None
    assert find_mismatch("window 1.2 ms, 3 events", printed) is not None
    assert find_mismatch("...\nmin 1 MiB\n", printed) is not None


def test_the_readme_shows_its_two_commands_in_order() -> None:
    """The first installs everything and measures, the second tests: `.ci/readme.py` takes them from these blocks."""
    commands = [block.strip() for _, block in iter_blocks((ROOT / "README.md").read_text(), "sh")]
    measure = "python3 -c 'block = bytearray(200 << 20); import time; time.sleep(2)'"
    assert commands == [
        f"python3 -m pip install . ./plugins/* && omn mem.rss --interval 100ms -- {measure}",
        "python3 -m pip install tox && tox",
    ]
