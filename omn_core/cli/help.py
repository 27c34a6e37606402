"""`omn help SOURCE`: one source explained, from its catalog entry and this machine's answers; or a whole family."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from omn_core.cli.app import Application, get_application
from omn_core.cli.offer import offer
from omn_core.model.catalog import Entry
from omn_core.resolve.complete import find_entry
from omn_core.resolve.listing import list_sources, list_walks

_EXAMPLES = {
    "launch": "-- ./server",
    "pid": "--pid 4711 -d 10s",
    "system": "--system -d 10s",
    "cgroup": "--cgroup /my/group -d 10s",
}


@click.command("help", epilog="\b\nExamples:\n  omn help mem.rss\n  omn help mem\n  omn help\n")
@click.argument("source", required=False, shell_complete=offer("topics"))
@click.pass_context
def help_command(context: click.Context, /, source: str | None) -> int:
    """Explain SOURCE: what it measures, on what, how to ask it, and what serves it here.

    The name of a family in its place is explained by its sources and by what it asks alone.
    """
    application = get_application(context)
    if source is None or source in application.registry.commands:
        parent = context.parent
        assert parent is not None
        command = parent.command if source is None else parent.command.get_command(parent, source)  # type: ignore[attr-defined]  # the group's
        print(command.get_help(click.Context(command, info_name=source or "omn", parent=parent if source else None)))
        return 0
    if source in application.catalog.families():
        from omn_core.cli.family import iter_family_help

        print("\n".join(iter_family_help(source, application.catalog, application.registry)))
        return 0
    print("\n".join(_iter_lines(application, find_entry(source, application.catalog, application.registry))))
    return 0


def _iter_lines(application: Application, entry: Entry) -> Iterator[str]:
    yield f"{entry.id}: {entry.title}"
    yield ""
    yield f"  measures   {entry.value}, in {entry.unit}"
    for mode in entry.modes:
        mark = "  (default)" if mode == entry.default.mode else ""
        yield f"  mode       {mode}: {', '.join(entry.emits[mode])}{mark}"
    for kind, reason in entry.targets.items():
        spelled = "-- PROGRAM" if kind == "launch" else f"--{kind}"
        yield from _wrap(f"  target     {spelled}" if reason is None else f"  not        {spelled}: {reason}")
    yield from _wrap(f"  keys       {', '.join(entry.keys) or 'none'}")
    others = [f"{name} ({unit})" for name, unit in entry.attributes.items() if name != entry.value]
    yield from _wrap(f"  attributes {', '.join(others) or 'none other'}")
    yield from _wrap(f"  filter     {', '.join(entry.filter_fields) or 'none'}")
    yield f"  repeats    determinism {entry.determinism}"
    for caveat in entry.caveats:
        yield from _wrap(f"  note       {caveat}")
    yield ""
    yield "  served, in this order, by"
    listed = list_sources(application.catalog, application.registry, application.probes, entry.id)["sources"][0]
    for backend in listed["backends"]:
        mark = "+" if backend["collected"] and backend["state"] == "available" else "-"
        reason = "" if backend["reason"] is None else f": {backend['reason']}"
        loses = "" if backend["degrades"] is None else f"; loses: {backend['degrades']}"
        yield from _wrap(f"    {mark} {backend['id']} (cost {backend['cost']}){reason}{loses}", 8)
    if entry.stacks is not None:
        yield ""
        yield "  its stacks are walked, in this order, by"
        for walk in list_walks(application.catalog, application.registry, application.probes):
            mark = "+" if walk["collected"] and walk["state"] == "available" else "-"
            reason = "" if walk["reason"] is None else f": {walk['reason']}"
            loses = "" if walk["degrades"] is None else f"; loses: {walk['degrades']}"
            yield from _wrap(
                f"    {mark} {walk['id']} (cost {walk['cost']}, copies {walk['copies']}){reason}{loses}", 8
            )
    yield ""
    yield from _iter_examples(entry)


def _wrap(line: str, hang: int = 13) -> list[str]:
    return textwrap.wrap(line, 80, subsequent_indent=" " * hang, break_on_hyphens=False, break_long_words=False)


def _iter_examples(entry: Entry) -> Iterator[str]:
    mode = entry.default.mode or entry.modes[0]
    emit = entry.default.emits.get(mode) or entry.emits[mode][0]
    flags = "" if entry.default.mode else f" -m {mode} -e {emit}"
    yield "  for example"
    targets = {kind for kind, reason in entry.targets.items() if reason is None}
    for kind, example in _EXAMPLES.items():
        if kind in targets:
            yield f"    omn {entry.id}{flags} {example}"
