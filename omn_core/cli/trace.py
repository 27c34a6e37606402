"""`omn SOURCE`: measure, or write down what would be measured."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from omn_core.cli.app import Application, get_application
from omn_core.cli.composed import say_band, say_composition, say_refused
from omn_core.cli.entry import FAILED_AFTER
from omn_core.cli.offer import offer
from omn_core.cli.once import OnceEach
from omn_core.cli.options import build_session, request_options
from omn_core.cli.output import check_carries, get_format
from omn_core.cli.parameters import FOLDER
from omn_core.cli.streams import complain, find_output_size
from omn_core.errors import Refused, RequestError, RunFailed
from omn_core.model.request import Session
from omn_core.names import render_printable
from omn_core.resolve.complete import find_entry

if TYPE_CHECKING:
    from omn_core.cli.progress import Progress
    from omn_core.model.resolved import ResolvedSession
    from omn_core.model.result import Document
    from omn_core.resolve.session import ValidSession
    from omn_core.run.runner import RunOptions

_DUMPS = ("dump_request", "dump_session", "dump_resolved")


@click.command(
    "trace",
    cls=OnceEach,
    # What stands where no word belongs is refused below, with the spelling that was meant.
    context_settings={"allow_extra_args": True},
    epilog="""\b
Examples:
  omn mem.rss --interval 100ms -- ./server
  omn cpu.util --system --keys cpu -d 5s -- ./load
  omn mem.faults -m count -e count --pid 4711 -d 10s --format json
  omn mem.rss --pid 4711 --dump-session > session.yaml
  omn mem -- ./server
  omn io --cost med --system -d 10s
""",
)
@request_options
@click.option(
    "--format",
    "format_name",
    default="text",
    metavar="FORMAT",
    shell_complete=offer("formats"),
    help="How to print the answer.",
)
@click.option("-o", "--output", type=FOLDER, metavar="DIR", help="Write the whole run there too.")
@click.option("--dump-request", is_flag=True, help="Print the requests as JSON and leave.")
@click.option("--dump-session", is_flag=True, help="Print a session that asks the same, and leave.")
@click.option("--dump-resolved", is_flag=True, help="Print how this machine would serve it, and leave.")
@click.option("--no-resolve", is_flag=True, help="With a dump: do not ask whether this machine can serve it.")
@click.option("-v", "--verbose", is_flag=True, help="Say on stderr which plugins did not load, and why.")
@click.pass_context
def trace(context: click.Context, /, source: str | None, **given: Any) -> int:
    """Measure SOURCE on a program, a process or the machine. The program stands after `--`.

    The name of a family in place of SOURCE asks what its default holds within a cost band.
    """
    application = get_application(context)
    _check_words(application, source, context.args)
    session = build_session(application, source, given)
    say_composition(session)
    if given["verbose"]:
        say_failed_plugins(application)
    dumps = [name for name in _DUMPS if given[name]]
    if len(dumps) > 1:
        raise RequestError(
            "one dump at a time", f"choose one of {', '.join('--' + d.replace('_', '-') for d in dumps)}"
        )
    if given["no_resolve"] and (not dumps or dumps[0] == "dump_resolved"):
        raise RequestError("--no-resolve means something beside --dump-request and --dump-session alone")
    if dumps and given["output"] is not None:
        raise RequestError("-o means nothing beside a dump, which runs nothing", "leave one of them out")
    if dumps:
        return _dump(application, session, dumps[0], given)
    return _measure(application, session, given)


def _check_words(application: Application, source: str | None, others: Sequence[str]) -> None:
    """Refuse a command that does not stand first, and words behind the source: a program without its `--`."""
    if source in application.registry.commands:
        raise RequestError(f"{source!r} is a command, and stands before every option", f"'omn {source} --help' has it")
    if not others:
        return
    if source not in application.catalog.families():
        find_entry(source or "", application.catalog, application.registry)
    spelled = render_printable(shlex.join(others), 60)
    raise RequestError(
        f"{spelled!r} stands where no word belongs", f"a program stands after '--': omn {source} -- {spelled}"
    )


def say_failed_plugins(application: Application) -> None:
    """Name on stderr every plugin that is not loaded whole."""
    _ = application.catalog
    for record in application.registry.records:
        if record.reason is not None:
            complain(f"omn: plugin {record.name} ({record.distribution}): {record.reason}")


def _dump(application: Application, session: Session, what: str, given: Mapping[str, Any]) -> int:
    from omn_core.cli.dumps import write_dump
    from omn_core.resolve.session import validate_session

    valid = validate_session(session, application.get_catalog(session.sources), application.registry)
    resolved = None if given["no_resolve"] else _resolve(application, valid)
    write_dump(application, what, valid, resolved, given["format_name"])
    return 0


def _resolve(application: Application, valid: ValidSession) -> ResolvedSession:
    from omn_core.resolve.session import resolve_session
    from omn_core.run.environment import read_environment

    environment = read_environment(application.probes.sysroot)
    resolved = resolve_session(valid, application.registry, application.probes, environment)
    say_band(resolved)
    return resolved


def _measure(application: Application, session: Session, given: Mapping[str, Any]) -> int:
    row = get_format(application, given["format_name"])
    from omn_core.resolve.session import validate_session

    valid = validate_session(session, application.get_catalog(session.sources), application.registry)
    for one in valid.completed:
        check_carries(row, one.emits)
    resolved = _resolve(application, valid)
    from omn_core.cli.answer import say_mixed, say_reservations, write_answer
    from omn_core.run.runner import RunOptions

    if given["output"] is not None:
        from omn_core.store import make_folder

        make_folder(given["output"])
    options = RunOptions(sysroot=application.probes.sysroot, become_subreaper=True, started_cpu_ns=0)
    with contextlib.ExitStack() as stack:
        progress = _find_progress(resolved.session)
        if progress is not None:
            options = attrs.evolve(options, observers=(stack.enter_context(progress).observe,))
        before = find_output_size()
        document, unfinished = _run(resolved, application, options)
        say_mixed(row.name, before)
    say_refused(document.session.session, resolved.session)
    write_answer(application, document, row.reference, given["output"])
    if not row.tells_losses:
        say_reservations(document)
    failures = [result for result in document.results if result.failure is not None]
    for result in failures:
        complain(f"omn: {result.resolved.entry.id}: {result.failure}")
    if unfinished is not None:
        complain(f"omn: {unfinished}")
    if failures or unfinished is not None:
        complain(FAILED_AFTER)
        return 1
    return 0


def _find_progress(session: Session) -> Progress | None:
    if not sys.stderr.isatty():
        return None
    from omn_core.cli.progress import find_progress

    return find_progress(session)


def _run(
    resolved: ResolvedSession, application: Application, options: RunOptions
) -> tuple[Document, Refused | RunFailed | None]:
    """Run once or as often as was asked. Returns the document, and why a later run of several was not finished."""
    times = resolved.session.repeat
    if times is None:
        from omn_core.run.runner import run

        return run(resolved, application.registry, options), None
    from omn_core.run.repeat import run_repeatedly

    repeated = run_repeatedly(resolved, application.registry, times, options)
    return repeated.document, repeated.failure
