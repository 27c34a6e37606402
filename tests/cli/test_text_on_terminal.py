"""Text where it lands: colour, width and length on a terminal, and all of it in a pipe."""

from __future__ import annotations

from typing import Any

import pytest
from terminals import on_terminal

pytestmark = pytest.mark.spec("FMT-3")

ASKED = ("proc.tasks", "--system", "-m", "snapshot", "-e", "summary", "--keys", "task")


@pytest.mark.parametrize(
    ("changes", "is_coloured"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb", "NO_COLOR": ""}, False),
    ],
)
def test_only_a_terminal_that_takes_colour_gets_it(omn: Any, changes: dict[str, str], is_coloured: bool) -> None:
    """Escapes on a terminal, none under NO_COLOR or on a dumb one, and no line wider than it is."""
    with on_terminal([*omn.argv, *ASKED], omn.environment(**changes), columns=90) as terminal:
        written = terminal.read_to_end()
    assert (b"\x1b[" in written) is is_coloured
    assert max(map(len, terminal.lines())) <= 90


def test_a_terminal_that_has_no_size_is_eighty_columns(omn: Any) -> None:
    """One that nobody told its size (a serial line, a terminal of a container) has none, and is not narrow."""
    with on_terminal([*omn.argv, *ASKED], omn.environment(TERM="dumb"), columns=0) as terminal:
        terminal.read_to_end()
    assert 40 < max(map(len, terminal.lines())) <= 80


def test_a_terminal_gets_the_first_rows_and_a_pipe_gets_all(omn: Any) -> None:
    """More tasks than a terminal shows: it is told how many more there are, and the pipe holds every one."""
    piped = omn(*ASKED)
    rows = [line for line in piped.stdout.decode().splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    if len(rows) <= 40:
        pytest.skip(f"only {len(rows)} tasks run here")
    assert "more; a pipe" not in piped.stdout.decode()
    with on_terminal([*omn.argv, *ASKED], omn.environment(TERM="xterm")) as terminal:
        terminal.read_to_end()
    shown = [line for line in terminal.lines() if line.split()[:1] and line.split()[0].isdigit()]
    assert len(shown) == 30
    assert any("more; a pipe, a file and every other format have all" in line for line in terminal.lines())
