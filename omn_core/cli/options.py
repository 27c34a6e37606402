"""The options that make a request, shared by every command that takes one, and the session they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import attrs
import click

from omn_core.cli.app import Application
from omn_core.cli.offer import offer
from omn_core.cli.parameters import DURATION, FOLDER, offer_files
from omn_core.errors import RequestError
from omn_core.model.request import Request, Session, parse_emit
from omn_core.model.target import Target, parse_target

F = TypeVar("F", bound=Callable[..., Any])


_OPTIONS = (
    click.option(
        "-m",
        "--mode",
        metavar="MODE",
        shell_complete=offer("modes"),
        help="How to read it: count, poll, snapshot, sample or trace.",
    ),
    click.option(
        "-e",
        "--emit",
        "emits",
        multiple=True,
        metavar="EMIT",
        shell_complete=offer("emits"),
        help="What to make of it; may be repeated.",
    ),
    click.option("--keys", metavar="KEY,...", shell_complete=offer("keys"), help="Divide the answer by these."),
    click.option(
        "--filter",
        "predicate",
        metavar="EXPRESSION",
        shell_complete=offer("fields"),
        help="Keep the events for which this holds.",
    ),
    click.option(
        "--value",
        metavar="ATTRIBUTE",
        shell_complete=offer("values"),
        help="Measure this attribute in place of the source's own value.",
    ),
    click.option("-d", "--duration", type=DURATION, help="How long at most, such as 5s."),
    click.option("--interval", type=DURATION, help="Between two readings of a polled source; 1s when absent."),
    click.option("--pid", metavar="PID,...", shell_complete=offer("processes"), help="Measure these processes."),
    click.option("--tid", type=int, metavar="TID", help="Measure this thread."),
    click.option(
        "--cgroup",
        metavar="PATH",
        shell_complete=offer("cgroups"),
        help="Measure this control group and everything below it.",
    ),
    click.option("--container", metavar="NAME", help="Measure this container's control group."),
    click.option("--system", is_flag=True, help="Measure the whole machine."),
    click.option("--cpu", metavar="CPU,...", shell_complete=offer("cpus"), help="Measure these cpus."),
    click.option("--iface", metavar="NAME", shell_complete=offer("interfaces"), help="Measure this network interface."),
    click.option("--dev", metavar="NAME", shell_complete=offer("devices"), help="Measure this block device."),
    click.option("--gpu", metavar="INDEX", help="Measure this graphics device."),
    click.option("--backend", metavar="force:ID", shell_complete=offer("backends"), help="Pin the mechanism."),
    click.option("--stack", metavar="MODE", help="How stacks are walked."),
    click.option("--hz", type=int, metavar="N", help="Samples a second, of a sampled source."),
    click.option("--period", type=int, metavar="N", help="Events a sample, of a sampled source."),
    click.option("--symbols", type=click.Choice(["none", "local", "debuginfod"]), help="Where names come from."),
    click.option(
        "-f",
        "--session",
        "session_file",
        metavar="FILE",
        shell_complete=offer_files,
        help="Read the session from a file, - for stdin.",
    ),
    click.option(
        "--input-format", type=click.Choice(["yaml", "json", "toml"]), help="The session's format, whatever its name."
    ),
    click.option("--budget", type=float, metavar="PCT", help="Stay under this share of the target's cpu."),
    click.option(
        "--cost",
        metavar="BAND",
        shell_complete=offer("bands"),
        help="Ask what this band holds, and keep to it: low, med or high.",
    ),
    click.option("-r", "--repeat", type=int, metavar="N", help="Run N times and say how the answers spread."),
    click.option("--until", metavar="EXPRESSION", help="Record until this holds, keeping what led up to it."),
    click.option("--retain", type=DURATION, help="How much a recording keeps from before its trigger."),
    click.option("--after", type=DURATION, help="How much a recording keeps from after its trigger."),
    click.option("--documents", type=int, metavar="N", help="How many triggers a recording writes at most."),
    click.option(
        "--program-stderr", metavar="FILE", shell_complete=offer_files, help="Where the program's stderr goes."
    ),
    click.option(
        "--program-stdout", metavar="FILE", shell_complete=offer_files, help="Where the program's stdout goes."
    ),
    click.option(
        "--catalog",
        "catalog_folder",
        type=FOLDER,
        metavar="DIR",
        help="Read the catalog from this folder in place of the installed ones.",
    ),
)
TARGETS = ("pid", "tid", "cgroup", "container", "system", "cpu", "iface", "dev", "gpu")
"""The options that name a target, each by its kind."""

_ONE_REQUEST = (
    "mode",
    "emits",
    "keys",
    "predicate",
    "value",
    "interval",
    "backend",
    "stack",
    "hz",
    "period",
    "symbols",
)
_FLAGS = {"predicate": "filter", "emits": "emit"}
_RECORDER = ("until", "retain", "after", "documents")


def request_options(function: F) -> F:
    """Give a command the argument SOURCE and every option that makes a request."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return click.argument("source", required=False, shell_complete=offer("sources"))(function)


def build_session(application: Application, source: str | None, given: dict[str, Any]) -> Session:
    """Make the session that the command line asks, or read the one it names. Raises RequestError."""
    application.catalog_folder = given["catalog_folder"]
    if given["session_file"] is not None:
        return _read_file(application, source, given)
    if source is None:
        raise RequestError("nothing was asked: name a source, or a session with -f", "'omn list' shows every source")
    if given["input_format"] is not None:
        raise RequestError("--input-format means nothing without a session file (-f)")
    if "." not in source:
        return _apply_environment(_compose(application, source, given))
    target, launch = _choose_target(given, application.program)
    request = Request(
        source=source,
        mode=given["mode"],
        emits=tuple(parse_emit(text) for text in given["emits"]),
        keys=_split(given["keys"], "--keys"),
        target=target,
        filter=given["predicate"],
        value=given["value"],
        interval_ns=given["interval"],
        backend=_parse_backend(given["backend"]),
        stack=given["stack"],
        hz=given["hz"],
        period=given["period"],
        symbols=given["symbols"],
    )
    session = Session(requests=(request,), launch=launch, duration_ns=given["duration"], **_session_fields(given))
    return _apply_environment(session)


def _compose(application: Application, family: str, given: dict[str, Any]) -> Session:
    """Make the session that a family's name stands for. What belongs to one request alone may not stand beside it."""
    from omn_core.resolve.compose import FamilyRequest, compose

    for flag in _name_given(given, [name for name in _ONE_REQUEST if name != "interval"]):
        raise RequestError(
            f"{flag} belongs to one request, and {family!r} is a family, which asks several",
            f"ask a source by its name; 'omn help {family}' has the long form of each",
        )
    target, launch = _choose_target(given, application.program)
    asked = FamilyRequest(family, given["cost"], target, launch, given["interval"])
    requests, composition = compose(asked, application.get_catalog([family]), application.registry)
    fields = {**_session_fields(given), "cost_band": given["cost"] or composition.band}
    return Session(requests, launch, given["duration"], **fields, composition=composition)


def _name_given(given: dict[str, Any], names: Iterable[str]) -> Iterator[str]:
    """Yield the flag of each of these options that was given."""
    for name in names:
        if given[name] not in (None, ()) and given[name] is not False:
            yield f"--{_FLAGS.get(name, name)}"


def _session_fields(given: dict[str, Any]) -> dict[str, Any]:
    recorder = {name: given[name] for name in _RECORDER if given[name] is not None}
    return {
        "budget_percent": given["budget"],
        "cost_band": given["cost"],
        "repeat": given["repeat"],
        "program_stderr": given["program_stderr"],
        "program_stdout": given["program_stdout"],
        "extras": {"record": recorder} if recorder else {},
    }


def _read_file(application: Application, source: str | None, given: dict[str, Any]) -> Session:
    """Read the session file. Only what belongs to a run, not to a request, may stand beside it."""
    from omn_core.session.read import read_session

    if source is not None:
        raise RequestError(f"a session file (-f) and the source {source!r} are two questions", "ask one of them")
    for flag in _name_given(given, (*_ONE_REQUEST, *TARGETS)):
        raise RequestError(f"{flag} belongs to a request, and the requests are the session file's")
    session = read_session(given["session_file"], given["input_format"])
    changes = {name: value for name, value in _session_fields(given).items() if value not in (None, {})}
    if given["duration"] is not None:
        changes["duration_ns"] = given["duration"]
    if application.program is not None:
        if session.program is not None:
            raise RequestError("the session launches a program, and the command line names another")
        changes["launch"] = parse_target({"launch": list(application.program)}).value
    return _apply_environment(attrs.evolve(session, **changes))


def _apply_environment(session: Session) -> Session:
    """OMN_PROGRAM_STDERR stands in for the option, and means nothing where no program is launched."""
    named = os.environ.get("OMN_PROGRAM_STDERR")
    if not named or session.program is None or session.program_stderr is not None:
        return session
    return attrs.evolve(session, program_stderr=named)


def _choose_target(given: dict[str, Any], program: tuple[str, ...] | None) -> tuple[Target | None, Any]:
    """Return the request's target, and the program that is the window beside it where both are named."""
    named = [name for name in TARGETS if given[name] is not None and given[name] is not False]
    if len(named) > 1:
        raise RequestError(f"{' and '.join('--' + name for name in named)} are two targets", "name one")
    launched = None if program is None else parse_target({"launch": list(program)})
    if not named:
        return launched, None
    name = named[0]
    value: Any = given[name]
    if name in ("pid", "cpu"):
        value = [_number(part, f"--{name}") for part in _split(value, f"--{name}")]
    return parse_target({name: value}), None if launched is None else launched.value


def _split(text: str | None, flag: str) -> tuple[str, ...]:
    if text is None:
        return ()
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise RequestError(f"{flag} is words with commas between them, not {text!r}")
    return tuple(dict.fromkeys(parts))


def _number(text: str, flag: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise RequestError(f"{flag} takes numbers with commas between them, not {text!r}")
    return int(text)


def _parse_backend(text: str | None) -> str | None:
    if text is None:
        return None
    word, _, identifier = text.partition(":")
    if word != "force" or not identifier:
        raise RequestError(f"--backend is written force:ID, not {text!r}")
    return identifier
