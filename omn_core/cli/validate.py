"""`omn validate`: everything about a request that does not depend on the machine."""

from __future__ import annotations

from typing import Any

import click

from omn_core.cli.app import get_application
from omn_core.cli.composed import say_composition
from omn_core.cli.once import OnceEach
from omn_core.cli.options import build_session, request_options


@click.command(
    cls=OnceEach,
    epilog="""\b
Examples:
  omn validate mem.rss -m poll -e summary --pid 4711
  omn validate -f session.yaml
""",
)
@request_options
@click.pass_context
def validate(context: click.Context, /, source: str | None, **given: Any) -> int:
    """Check a request or a session without asking this machine whether it can serve it."""
    from omn_core.resolve.session import validate_session

    application = get_application(context)
    session = build_session(application, source, given)
    say_composition(session)
    catalog = application.get_catalog(session.sources)
    for one in validate_session(session, catalog, application.registry).completed:
        emits = ", ".join(map(str, one.emits))
        print(f"valid: {one.entry.id}, mode {one.mode}, emits {emits}, target {one.target}")
    return 0
