"""`omn list`: every source, whether this machine and this build can serve it, and what stands in the way."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from omn_core.cli.app import Application, get_application
from omn_core.cli.offer import offer
from omn_core.cli.output import plain_format_option, write_plain
from omn_core.cli.parameters import FOLDER
from omn_core.resolve.listing import list_sources


@click.command(
    "list", epilog="\b\nExamples:\n  omn list\n  omn list mem --usable\n  omn list mem.faults --format json\n"
)
@click.argument("word", required=False, shell_complete=offer("words"))
@plain_format_option
@click.option("--usable", is_flag=True, help="Only the sources that can be measured here.")
@click.option("--catalog", "folder", type=FOLDER, metavar="DIR", help="Read this folder.")
@click.pass_context
def list_command(
    context: click.Context, /, word: str | None, format_name: str, usable: bool, folder: Path | None
) -> int:
    """Show every source, those of the family WORD, or the one source WORD with the reason of each backend."""
    application = get_application(context)
    application.catalog_folder = folder
    catalog = application.catalog
    if word is not None and word not in catalog.families():
        from omn_core.resolve.complete import find_entry

        find_entry(word, catalog, application.registry)
    brief = format_name == "text" and word not in catalog.entries
    listing = list_sources(catalog, application.registry, application.probes, word, brief=brief)
    if usable:
        listing["sources"] = [source for source in listing["sources"] if source["usable"]]
    if format_name != "text":
        write_plain(application, format_name, listing)
        return 0
    print("\n".join(_iter_lines(application, listing, word)))
    return 0


def _iter_lines(application: Application, listing: dict[str, Any], word: str | None) -> Iterator[str]:
    sources = listing["sources"]
    width = max((len(source["id"]) for source in sources), default=0)
    family = None
    for source in sources:
        if source["family"] != family:
            family = source["family"]
            yield f"{family.upper()}  ({source['distribution'] or 'a catalog folder'})"
        yield from _iter_source(source, width, word == source["id"], application.style.width)
    if not sources:
        yield from _iter_nothing(application, word)
    usable = sum(source["usable"] for source in sources)
    if sources:
        yield ""
        yield f"{usable} of {len(sources)} sources can be measured here. 'omn list SOURCE' gives every reason."
    broken = [record.name for record in application.registry.records if record.reason is not None]
    if broken:
        yield f"Not loaded whole: {', '.join(broken)}. 'omn plugins' says why."
    yield ""
    yield "DEFAULTS"
    yield from _iter_defaults(listing["defaults"], word, application.style.width)


def _iter_defaults(defaults: list[dict[str, Any]], word: str | None, columns: int) -> Iterator[str]:
    """Yield, for each family, the sources that its name alone asks in each band."""
    if not defaults:
        whose = "no installed family declares" if word is None else f"{word.partition('.')[0]!r} does not declare"
        yield f"  none: {whose} what its name alone measures"
    for default in defaults:
        name = f"  omn {default['family']}"
        if default["none"] is not None:
            yield from _wrap(f"{name}  nothing: {default['none']}", columns)
        for band, requests in default["bands"].items():
            sources = dict.fromkeys(request["source"] for request in requests)
            yield from _wrap(f"{name} --cost {band}  {', '.join(sources)}", columns)


def _wrap(line: str, columns: int) -> list[str]:
    return textwrap.wrap(line, columns, subsequent_indent="      ", break_on_hyphens=False)


def _iter_source(source: dict[str, Any], width: int, whole: bool, columns: int) -> Iterator[str]:
    mark = "+" if source["usable"] else "-"
    indent = " " * (width + 6)
    yield from textwrap.wrap(
        f"  {mark} {source['id']:{width}}  {source['title']}", columns, subsequent_indent=indent, break_on_hyphens=False
    )
    if source["usable"] and not whole:
        yield f"{indent}through {source['through']}"
        return
    for backend in source["backends"]:
        states = (backend["state"], None if backend["collected"] else "not collected")
        state = ", ".join(filter(None, states))
        reason = "" if backend["reason"] is None else f": {backend['reason']}"
        unseen = "" if backend["unseen"] is None else f" [never run on its hardware: {backend['unseen']}]"
        line = f"{backend['id']} ({state}){reason}{unseen}"
        yield from textwrap.wrap(
            line, columns, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
        )


def _iter_nothing(application: Application, word: str | None) -> Iterator[str]:
    from omn_core.catalog.known import read_known

    if application.catalog.entries:
        yield f"Nothing of {word} can be measured here; 'omn list {word}' gives the reasons."
        return
    offered = [dist for dist, kinds in read_known().distributions.items() if kinds.get("sources")]
    yield "No family is installed, so there is nothing to measure yet."
    yield f"Install one or more of {', '.join(offered)}."
