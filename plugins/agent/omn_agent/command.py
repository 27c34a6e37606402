"""`omn agent`: coding agents' sessions imported as recordings, and recordings read back."""

from __future__ import annotations

from pathlib import Path

import click

from omn_agent.harness import Harness
from omn_core.api import RequestError


@click.group(
    "agent",
    epilog="""\b
Examples:
  omn agent import claude ~/.claude/projects/-work -o work.pftrace
  omn agent show work.pftrace
""",
)
def agent() -> None:
    """Import coding agents' sessions as Perfetto recordings, and read recordings."""


@agent.command(
    "import",
    short_help="Write session files as one recording.",
    epilog="""\b
Examples:
  omn agent import claude ~/.claude/projects/-work/0f3c.jsonl
  omn agent import codex ~/.codex/sessions/2026/03 -o march.pftrace
""",
)
@click.argument("harness", type=click.Choice([harness.value for harness in Harness]))
@click.argument("place", type=click.Path(path_type=Path), metavar="FILE|DIR")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write this file, not there yet.")
def import_command(harness: str, place: Path, output: Path | None) -> int:
    """Write the session files at FILE or below DIR as one recording: NAME.pftrace, where -o names no other."""
    from omn_agent.content import is_content_kept
    from omn_agent.encoding.write import write_recording
    from omn_agent.files import write_new
    from omn_agent.importing.account import render_account
    from omn_agent.importing.read import read_recording

    recording, account = read_recording(Harness(harness), place, is_content_kept())
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
@click.argument("harness", type=click.Choice([harness.value for harness in Harness]))
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
def show_command(files: tuple[Path, ...], format_name: str) -> int:
    """Say what happened in recordings, several FILEs on one clock: sessions, tokens, slow tools, scripts, health."""
    import json

    from omn_agent.reading.captures import read_captures
    from omn_agent.reading.report import make_report
    from omn_agent.reading.text import render_report

    reading = read_captures(files)
    if not reading.captures:
        raise RequestError(
            f"no capture of a coding agent is in {', '.join(repr(str(path)) for path in files)}",
            "`omn agent import` makes recordings that have one",
        )
    report = make_report(reading)
    click.echo(json.dumps(report, indent=2) if format_name == "json" else render_report(report))
    return 0
