"""Printing what would be measured: the requests, a session that asks the same, or how this machine would serve it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import attrs

from omn_core.cli.app import Application
from omn_core.cli.output import write_plain
from omn_core.model.request import Request
from omn_core.resolve.again import refuse_unspellable, write_out
from omn_core.session.shape import make_plain_request, make_plain_session

if TYPE_CHECKING:
    from omn_core.model.resolved import ResolvedSession
    from omn_core.resolve.session import ValidSession


def write_dump(
    application: Application, what: str, valid: ValidSession, resolved: ResolvedSession | None, name: str
) -> None:
    """Write one dump on standard output: a request as JSON, the others by a format's name, where `text` is YAML.

    `resolved` is None where nobody asked whether this machine can serve it; `dump_resolved` always has it.
    """
    if resolved is None:
        whole = write_out(valid.session, valid.completed)
    else:
        whole = write_out(resolved.session, resolved.requests)
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


def make_full_request(request: Request) -> dict[str, Any]:
    """Return every field of a request's model, null where nothing was said."""
    fields = [field.name.removesuffix("_ns") for field in attrs.fields(Request)]
    plain = make_plain_request(request)
    return {name: plain.get(name, [] if name in ("emits", "keys") else None) for name in fields}
