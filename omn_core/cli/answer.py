"""Writing what a run came to: its folder, the answer through an encoder, and what a format has no place for."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from omn_core.cli.app import Application
from omn_core.cli.streams import complain, drop_stream, find_output_size
from omn_core.errors import PLUGIN_FAULTS, RequestError, RunFailed
from omn_core.model.result import Document


def write_answer(application: Application, document: Document, encoder: str, folder: Path | None) -> None:
    """Write the run's folder, then the answer: one is written where the other cannot be.

    Raises RunFailed where either could not be, saying if anything was.
    """
    unwritten: RunFailed | None = None
    try:
        if folder is not None:
            _write_folder(application, document, folder)
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


def _write_folder(application: Application, document: Document, folder: Path) -> None:
    from omn_core.format.as_yaml import YAML
    from omn_core.resolve.again import refuse_unspellable, write_out
    from omn_core.resolve.plain import make_plain_resolved
    from omn_core.session.shape import make_plain_session
    from omn_core.store import compute_view, write_run

    # What was run: of a family's default, what this machine served in the end.
    session = write_out(document.session.session, tuple(result.resolved for result in document.results))
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
