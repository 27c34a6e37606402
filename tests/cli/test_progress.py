"""The line that shows how far a run is: where it is shown, where it is not, and that it is gone before the answer."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import attrs
import pytest
from shapes import make_batch
from terminals import on_terminal

from omn_core.cli.progress import Progress
from omn_core.model.request import Session
from omn_core.run.events import Moment, RunEvent

pytestmark = pytest.mark.spec("RUN-13")

LONG = ("cpu.util", "--system", "-d", "600s", "--interval", "100ms")


def test_a_long_run_shows_where_it_is_and_takes_the_line_away(omn: Any) -> None:
    """Elapsed, of how long, events; after Ctrl-C the line is empty, and on standard error nothing else was written."""
    environment = omn.environment(TERM="xterm", NO_COLOR="")
    with on_terminal([*omn.argv, *LONG], environment, streams=["stderr"]) as terminal:
        terminal.read_until(b" s of 600 s, ")
        assert "\x1b[2m" in terminal.written.decode()
        assert terminal.lines()[0].startswith("omn: ")
        assert terminal.lines()[0].endswith(" events")
        os.kill(terminal.child.pid, signal.SIGINT)
        terminal.read_to_end()
    assert terminal.child.returncode == 0
    assert terminal.lines() == [""]


def test_the_answer_stands_where_the_line_was(omn: Any) -> None:
    """On one terminal the answer begins on the line that the progress has left empty."""
    with on_terminal([*omn.argv, *LONG], omn.environment(TERM="xterm")) as terminal:
        terminal.read_until(b" s of 600 s, ")
        terminal.type("\x03")
        terminal.read_to_end()
    lines = terminal.lines()
    assert lines[0].removeprefix("^C").startswith("cpu.util: summary; poll every 100 ms, of the whole machine")
    assert not any("of 600 s" in line for line in lines)


def test_no_color_means_no_escape_at_all(omn: Any) -> None:
    """Under NO_COLOR the line is drawn with carriage returns and spaces alone."""
    environment = omn.environment(TERM="xterm", NO_COLOR="1")
    with on_terminal([*omn.argv, *LONG], environment, streams=["stderr"]) as terminal:
        terminal.read_until(b" s of 600 s, ")
        os.kill(terminal.child.pid, signal.SIGTERM)
        assert b"\x1b" not in terminal.read_to_end()
    assert terminal.lines() == [""]


def test_a_repeated_run_says_which_it_is(omn: Any) -> None:
    """Of several runs the line says the number."""
    with on_terminal([*omn.argv, *LONG, "-r", "3"], omn.environment(TERM="xterm"), streams=["stderr"]) as terminal:
        terminal.read_until(b"omn: run 1 of 3, ")


@pytest.mark.parametrize(
    ("streams", "term", "program"),
    [
        ([], "xterm", ()),
        (["stdout"], "xterm", ()),
        (["stderr"], "dumb", ()),
        (["stderr"], None, ()),
        (["stdout", "stderr"], "xterm", ("--program-stderr", "err", "--")),
        (["stderr"], "xterm", ("--",)),
        (["stdout", "stderr"], "xterm", ("--program-stdout", "out", "--")),
    ],
)
def test_nothing_is_shown_where_nobody_reads_it_or_a_program_writes(
    omn: Any, tmp_path: Path, streams: list[str], term: str | None, program: tuple[str, ...]
) -> None:
    """No terminal, a dumb one, or one that the launched program writes to: a run of two seconds leaves no trace."""
    environment = {name: value for name, value in omn.environment().items() if name != "TERM"}
    environment |= {} if term is None else {"TERM": term}
    asked = ["cpu.util", "--interval", "100ms", "--format", "json"]
    asked += [*program, "sleep", "2"] if program else ["--system", "-d", "2s"]
    with on_terminal([*omn.argv, *asked], environment, streams=streams, cwd=tmp_path) as terminal:
        written = terminal.read_to_end()
    assert terminal.child.returncode == 0
    assert b"omn: " not in written
    assert written[:1] in (b"", b"{")


def test_a_program_that_writes_elsewhere_is_no_hindrance(omn: Any, tmp_path: Path) -> None:
    """With both of its streams in files the terminal is omn's."""
    asked = ["cpu.util", "--program-stdout", "out", "--program-stderr", "err", "--", "sleep", "600"]
    environment = omn.environment(TERM="xterm")
    with on_terminal([*omn.argv, *asked], environment, streams=["stderr"], cwd=tmp_path) as terminal:
        terminal.read_until(b" events")
        os.kill(terminal.child.pid, signal.SIGINT)
        terminal.read_to_end()
    assert terminal.lines() == [""]


def test_the_line_counts_events_and_losses_of_the_run_it_is_in() -> None:
    """Events add up over the ticks, losses are the run's own count, and both begin anew with the next run."""
    opened = 1_000_000_000
    moment = RunEvent(Moment.ATTACHED, opened, None)  # type: ignore[arg-type]  # no session is looked at
    with Progress(Session((), duration_ns=60_000_000_000, repeat=2), 2, colour=False, first_after_s=600.0) as progress:
        for lost in (0, 7):
            progress.observe(attrs.evolve(moment, moment=Moment.TICK))
            progress.observe(moment)
            tick = attrs.evolve(moment, moment=Moment.TICK, batches=[(0, make_batch([1, 2]))], lost=lost)
            progress.observe(tick)
            progress.observe(attrs.evolve(tick, batches=[(0, make_batch([3])), (1, make_batch([4]))]))
            progress.observe(attrs.evolve(moment, moment=Moment.CLOSED))
            number = 2 if lost else 1
            said = f"omn: run {number} of 2, 4 s of 60 s, 4 events"
            assert progress.render(opened + 4_200_000_000) == (f"{said}, 7 lost" if lost else said)
