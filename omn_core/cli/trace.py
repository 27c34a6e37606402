"""`omn SOURCE`: measure, or write down what would be measured."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from omn_core.cli.app import Application, get_application
from omn_core.cli.composed import say_band, say_composition, say_refused
from omn_core.cli.entry import FAILED_AFTER
from omn_core.cli.offer import offer
from omn_core.cli.once import OnceEach
from omn_core.cli.options import build_session, request_options
from omn_core.cli.output import check_carries, get_format, write_plain
from omn_core.cli.parameters import FOLDER
from omn_core.cli.streams import complain, drop_stream, find_output_size
from omn_core.errors import PLUGIN_FAULTS, Refused, RequestError, RunFailed
from omn_core.model.request import Request, Session
from omn_core.names import render_printable
from omn_core.resolve.complete import Completed, find_entry

if TYPE_CHECKING:
    from omn_core.cli.progress import Progress
    from omn_core.model.resolved import ResolvedRequest, ResolvedSession
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
    from omn_core.resolve.session import validate_session
    from omn_core.session.shape import make_plain_session

    valid = validate_session(session, application.get_catalog(session.sources), application.registry)
    resolved = None if given["no_resolve"] else _resolve(application, valid)
    if resolved is None:
        whole = write_out(valid.session, valid.completed)
    else:
        whole = write_out(resolved.session, resolved.requests)
    name = given["format_name"]
    if what == "dump_request":
        plain = [make_full_request(request) for request in whole.requests]
        sys.stdout.write(json.dumps(plain[0] if len(plain) == 1 else plain, indent=2) + "\n")
    elif what == "dump_session":
        refuse_unspellable(whole)
        write_plain(application, "yaml" if name == "text" else name, make_plain_session(whole))
    else:
        from omn_core.resolve.plain import make_plain_resolved

        assert resolved is not None
        versions = application.registry.versions()
        write_plain(application, "yaml" if name == "text" else name, make_plain_resolved(resolved, versions))
    return 0


def write_out(session: Session, completed: tuple[Completed, ...] | tuple[ResolvedRequest, ...]) -> Session:
    """Return the session with what was defaulted written out, so that it asks the same thing wherever it is run."""
    requests = tuple(
        attrs.evolve(
            one.request,
            mode=one.mode,
            emits=one.emits,
            target=one.request.target or one.target,  # what was asked: a container, whatever cgroup it has here
            interval_ns=one.interval_ns,
        )
        for one in completed
    )
    return attrs.evolve(session, requests=requests)


def _write_out_run(document: Document) -> Session:
    """Return the session of what was run: of a family's default, what this machine served in the end."""
    return write_out(document.session.session, tuple(result.resolved for result in document.results))


def refuse_unspellable(session: Session) -> None:
    """Raise RequestError where a session file, which is UTF-8, would ask something else than this session does."""
    from omn_core.session.shape import make_plain_session

    text = json.dumps(make_plain_session(session), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"a session file is UTF-8, and this session holds bytes that are not: {text[error.start : error.end]!r}",
            "give the program such an argument through a script that the session launches",
        ) from error


def make_full_request(request: Request) -> dict[str, Any]:
    """Return every field of a request's model, null where nothing was said."""
    from omn_core.session.shape import make_plain_request

    fields = [field.name.removesuffix("_ns") for field in attrs.fields(Request)]
    plain = make_plain_request(request)
    return {name: plain.get(name, [] if name in ("emits", "keys") else None) for name in fields}


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
    _write(application, document, row.reference, given["output"], _write_out_run(document))
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


def _write(application: Application, document: Document, encoder: str, folder: Path | None, session: Session) -> None:
    """Write the run's folder, then the answer: one is written where the other cannot be.

    Raises RunFailed where either could not be, saying if anything was.
    """
    unwritten: RunFailed | None = None
    try:
        if folder is not None:
            _write_folder(application, document, folder, session)
    except RunFailed as error:
        unwritten = error
    try:
        application.registry.load(encoder).write(document, sys.stdout.buffer, application.style)
        sys.stdout.buffer.flush()
    except OSError as error:
        drop_stream(sys.stdout)
        raise _explain_unwritten(error.strerror, folder is not None, unwritten) from error
    except PLUGIN_FAULTS as error:  # a guarded plugin call: an encoder may be anybody's
        reason = f"{encoder} raised {type(error).__name__}: {error}"
        raise _explain_unwritten(reason, folder is not None, unwritten) from error
    if unwritten is not None:
        raise RunFailed(unwritten.reason, written=True)


def say_mixed(name: str, before: int | None) -> None:
    """Say that a file which is to hold a format's bytes alone holds the program's too, written since `before`.

    No other reader than a person tells one from the other. A pipe keeps no account of what went through it.
    """
    after = None if name == "text" or before is None else find_output_size()
    if before is not None and after is not None and after > before:
        complain(f"omn: {after - before} bytes of the program's stand before the {name} on standard output")
        complain("     send them elsewhere with --program-stdout FILE")


def say_reservations(document: Document) -> None:
    """Say on stderr what stands between the numbers and the truth, for a format that has no place for it."""
    from omn_core.format.reservations import iter_reservations

    for sentence in iter_reservations(document):
        complain(f"omn: {sentence}")


def _explain_unwritten(reason: str | None, has_folder: bool, unwritten: RunFailed | None) -> RunFailed:
    """Return the failure of an answer that could not be written, after its folder (`unwritten`: that neither was)."""
    both = "" if unwritten is None else f"{unwritten.reason}, and "
    return RunFailed(f"{both}the answer could not be written: {reason}", has_folder and unwritten is None)


def _write_folder(application: Application, document: Document, folder: Path, session: Session) -> None:
    from omn_core.format.as_yaml import YAML
    from omn_core.resolve.plain import make_plain_resolved
    from omn_core.session.shape import make_plain_session
    from omn_core.store import compute_view, write_run

    text = io.BytesIO()
    try:
        refuse_unspellable(session)
    except RequestError as error:
        text.write(f"# This does not ask the same again: {error.reason}\n".encode())
    YAML.write_plain(make_plain_session(session), text, application.style)
    write_run(
        folder,
        document,
        session=text.getvalue().decode(),
        resolved=make_plain_resolved(document.session, application.registry.versions()),
        view=compute_view(document),
    )
