"""`omn agent`: coding agents recorded, their sessions imported, and recordings read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omn_agent.harness import Harness
from omn_core.api import RequestError

if TYPE_CHECKING:
    from omn_core.api import Alongside

_NAMES = [harness.value for harness in Harness]


@click.group(
    "agent",
    epilog="""\b
Examples:
  omn agent record -- claude
  omn agent import claude ~/.claude/projects/-work -o work.pftrace
  omn agent show work.pftrace
""",
)
def agent() -> None:
    """Record coding agents, import their sessions as Perfetto recordings, and read recordings."""


@agent.command(
    "import",
    short_help="Write session files as one recording.",
    epilog="""\b
Examples:
  omn agent import claude ~/.claude/projects/-work/0f3c.jsonl
  omn agent import codex ~/.codex/sessions/2026/03 -o march.pftrace
""",
)
@click.argument("harness", type=click.Choice(_NAMES))
@click.argument("place", type=click.Path(path_type=Path), metavar="FILE|DIR")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write this file, not there yet.")
def import_command(harness: str, place: Path, output: Path | None) -> int:
    """Write the session files at FILE or below DIR as one recording: NAME.pftrace, where -o names no other."""
    from omn_agent.content import is_content_kept
    from omn_agent.encoding.write import write_recording
    from omn_agent.files import write_new
    from omn_agent.importing.account import render_account
    from omn_agent.importing.read import read_recording

    recording, account = read_recording(Harness(harness), place, is_content_kept(Harness(harness)))
    path = output or Path(f"{place.resolve().name.partition('.')[0]}.pftrace")
    write_new(path, lambda stream: write_recording(stream, recording))
    click.echo(render_account(path, recording, account))
    return 0


@agent.command(
    "hook",
    short_help="Hand a hook's event to a recorder.",
    epilog="""\b
Examples:
  omn agent hook claude /run/user/1000/omn-agent-3f2a on < event.json
""",
)
@click.argument("harness", type=click.Choice(_NAMES))
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("content", type=click.Choice(["on", "off"]))
def hook_command(harness: str, folder: Path, content: str) -> int:
    """Hand the event on standard input to the recorder of FOLDER, with or without its content.

    It becomes the client that hooks run, which recorders name directly: a start of omn costs much more. It says nothing
    and ends with 0 whether anybody took the event or not.
    """
    import os

    from omn_agent.hook.client import get_client

    client = get_client()
    os.execv(client[0], [*client, harness, str(folder), content])  # noqa: S606  # omn-agent's own client


@agent.command(
    "record",
    options_metavar="[OPTIONS] -- PROGRAM [ARGUMENT...]",
    short_help="Launch a coding agent and record it.",
    epilog="""\b
Examples:
  omn agent record -- claude
  omn agent record --label code-mode -o work.pftrace -- pi "mend the fence"
  omn agent record --with polled -- claude
""",
)
@click.option("--harness", type=click.Choice(_NAMES), help="Which agent it is, where its program's name does not say.")
@click.option("--label", metavar="TEXT", help="A name of this recording's own.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write this file, not there yet.")
@click.option(
    "--with",
    "session_file",
    metavar="SESSION",
    help="Ask this session file, or the ready one `polled` or `traced`, of the machine meanwhile.",
)
@click.option("--telemetry", is_flag=True, help="Let Claude Code's own telemetry tell of its requests and tools too.")
@click.option("--write-hooks", is_flag=True, help="Write hooks into Codex's or Muse's configuration, and say where.")
@click.pass_obj
def record_command(
    application: Any,
    harness: str | None,
    label: str | None,
    output: Path | None,
    session_file: str | None,
    telemetry: bool,
    write_hooks: bool,
) -> int:
    """Launch the program after `--`, follow its session files and hooks until it ends, and write what happened.

    Nothing is written into a configuration of the user's unless --write-hooks asks for it. SIGTERM ends the recording,
    and leaves the program alone.
    """
    import os

    from omn_agent.recorder import hook_file
    from omn_agent.recorder.launch import find_harness
    from omn_agent.recorder.published import render_published
    from omn_agent.recorder.record import Wish, record

    command: tuple[str, ...] = application.program or ()
    if not command:
        raise RequestError("nothing says what is to be recorded", "a harness stands after `--`, as it spells itself")
    found = find_harness(command[0]) if harness is None else Harness(harness)
    if write_hooks:
        _say(hook_file.write_hooks(found, os.environ))
    wish = Wish(
        harness=found,
        argv=command,
        label=label,
        output=output,
        say=_say,
        start_beside=None if session_file is None else _plan_beside(application, session_file, found),
        has_telemetry=telemetry,
    )
    click.echo(render_published(record(wish)))
    return 0


def _plan_beside(application: Any, session_file: str, harness: Harness) -> Callable[[int], Alongside]:
    """Read a session, and return what starts it on a process."""
    from omn_agent.content import is_content_kept
    from omn_agent.machine.asking import make_beside, read_asked
    from omn_core.api import start_alongside

    session = read_asked(session_file)

    def start(pid: int) -> Alongside:
        beside = make_beside(session, pid, is_content_kept(harness))
        return start_alongside(application.registry, application.catalog, application.probes, beside)

    return start


@agent.command(
    "recover",
    short_help="Write the recording of a recorder that died.",
    epilog="""\b
Examples:
  omn agent recover ~/.cache/omn/agent/claude-1f0c77aa.journal
""",
)
@click.argument("journal", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write this file, not there yet.")
def recover_command(journal: Path, output: Path | None) -> int:
    """Write the recording that JOURNAL holds, as the file it was to be unless -o names another.

    What was unfinished stays open in it, and what is torn in the journal is counted.
    """
    from omn_agent.recorder.published import render_published
    from omn_agent.recorder.record import recover

    click.echo(render_published(recover(journal, output, _say)))
    return 0


@agent.command(
    "show",
    short_help="Say what happened in recordings.",
    epilog="""\b
Examples:
  omn agent show work.pftrace
  omn agent show first.pftrace second.pftrace --format json
""",
)
@click.argument("files", type=click.Path(path_type=Path), metavar="FILE...", nargs=-1, required=True)
@click.option("--format", "format_name", type=click.Choice(["text", "json"]), default="text", help="text or json.")
@click.pass_obj
def show_command(application: Any, files: tuple[Path, ...], format_name: str) -> int:
    """Say what happened in recordings, several FILEs on one clock: sessions, tokens, slow tools, scripts, health."""
    import json
    import sys

    from omn_agent.reading.captures import read_captures
    from omn_agent.reading.report import make_report
    from omn_agent.reading.text import WIDTH, render_report

    reading = read_captures(files)
    if not reading.captures:
        raise RequestError(
            f"no capture of a coding agent is in {', '.join(repr(str(path)) for path in files)}",
            "`omn agent import` makes recordings that have one",
        )
    report = make_report(reading)
    width = application.style.width if sys.stdout.isatty() else WIDTH
    click.echo(json.dumps(report, indent=2) if format_name == "json" else render_report(report, width))
    return 0


def _say(text: str) -> None:
    """Tell the person who waits, beside what is asked for."""
    click.echo(f"omn: {text}", err=True)
