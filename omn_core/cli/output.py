"""Choosing an encoder, and writing through it."""

from __future__ import annotations

import sys
from typing import Any

import click

from omn_core.cli.app import Application
from omn_core.cli.offer import offer
from omn_core.errors import NotCollected, RequestError
from omn_core.model.request import EmitSpec
from omn_core.model.rows import FormatRow
from omn_core.nearest import suggest

plain_format_option = click.option(
    "--format",
    "format_name",
    default="text",
    metavar="FORMAT",
    shell_complete=offer("plain formats"),
    help="text, json, yaml or toml.",
)
"""The `--format` of a command that prints text, and through `write_plain` anything else."""


def get_format(application: Application, name: str) -> FormatRow:
    """Return a format's row. Raises NotCollected naming what to install, RequestError for a word nobody knows."""
    row = application.registry.formats.get(name)
    if row is not None:
        return row
    from omn_core.catalog.known import read_known

    distributions = read_known().find("formats", name)
    if distributions:
        raise NotCollected(f"the format {name!r} is not installed", f"install {' and '.join(distributions)} to have it")
    formats = application.registry.formats
    raise RequestError(f"no format is called {name!r}", suggest(name, formats, f"the formats are {', '.join(formats)}"))


def check_carries(row: FormatRow, emits: tuple[EmitSpec, ...]) -> None:
    """Refuse an emit that a format cannot hold, before anything is resolved."""
    for emit in emits:
        if row.emits and emit.name not in row.emits:
            raise RequestError(f"the format {row.name} cannot carry {emit.name}", f"it carries {', '.join(row.emits)}")


def write_plain(application: Application, name: str, value: Any) -> None:
    """Write a listing, a request or a session on standard output. Raises RequestError where the format holds none."""
    row = get_format(application, name)
    if not row.carries_documents:
        raise RequestError(f"the format {name} holds runs alone")
    application.registry.load(row.reference).write_plain(value, sys.stdout.buffer, application.style)
    sys.stdout.buffer.flush()
