"""`omn agent`: coding agents' sessions imported as recordings."""

from __future__ import annotations

from pathlib import Path

import click

from omn_agent.harness import Harness


@click.group("agent", epilog="\b\nExamples:\n  omn agent import claude ~/.claude/projects/-work -o work.pftrace\n")
def agent() -> None:
    """Import coding agents' sessions as Perfetto recordings."""


@agent.command(
    "import",
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
