"""`omn diff`: what two stored runs differ by, and how sure that is."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from omn_core.cli.app import get_application
from omn_core.cli.output import get_format, plain_format_option, write_plain
from omn_core.cli.parameters import offer_files

_PLACE = click.Path(path_type=Path)


@click.command(
    "diff",
    epilog="""\b
Examples:
  omn diff before after
  omn diff before/1 after/1 --before before/2 --after after/2 --format json
""",
)
@click.argument("a", type=_PLACE, shell_complete=offer_files)
@click.argument("b", type=_PLACE, shell_complete=offer_files)
@click.option("--before", multiple=True, type=_PLACE, metavar="PLACE", help="Another run on A's side; may be repeated.")
@click.option("--after", multiple=True, type=_PLACE, metavar="PLACE", help="Another run on B's side; may be repeated.")
@plain_format_option
@click.pass_context
def diff(
    context: click.Context, /, a: Path, b: Path, before: tuple[Path, ...], after: tuple[Path, ...], format_name: str
) -> int:
    """Compare the run stored in A with the one in B: folders that -o wrote, or their results.json.

    A repeated run (-r) is as many runs. With two or more on each side a verdict is on the difference between runs.
    """
    from omn_core.diff.compare import compare_runs

    application = get_application(context)
    get_format(application, format_name)
    comparison = compare_runs((a, *before), (b, *after))
    if format_name == "text":
        from omn_core.diff.text import render_comparison

        sys.stdout.write(render_comparison(comparison, application.style))
        return 0
    from omn_core.diff.plain import compute_plain_comparison

    write_plain(application, format_name, compute_plain_comparison(comparison))
    return 0
