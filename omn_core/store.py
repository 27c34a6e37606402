"""A run on disk: its folder of files, written whole or not at all. `omn_core.stored` reads it back."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from omn_core import SCHEMA
from omn_core.errors import MachineRefused, Refused, RequestError, RunFailed
from omn_core.format.as_json import JSON
from omn_core.format.plain import compute_plain_cost
from omn_core.model.result import Document
from omn_core.model.style import TextStyle
from omn_core.stored import RESULTS

Writer = Callable[[BinaryIO], None]


def make_folder(folder: Path) -> None:
    """Make a run's folder, mode 0700, where it is not there yet. Called before the run, so that it fails early.

    Raises RequestError where the path is something else than a folder, MachineRefused where this user may not write
    there.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise RequestError(f"{str(folder)!r} is not a folder", "name another with -o") from error
    except OSError as error:
        raise MachineRefused(f"folder {str(folder)!r} cannot be made: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MachineRefused(f"folder {str(folder)!r} cannot be written to by this user", "name another with -o")


def write_run(folder: Path, document: Document, *, session: str, resolved: Any, view: Mapping[str, Any]) -> None:
    """Write a run: results.json, cost.json, session.yaml, resolved.json and view.json, mode 0600.

    `session` is the runnable session's YAML, `resolved` the resolved session and `view` what a replay needs beside
    the results, both as plain values. Every file is written aside first, then each takes its place at once, the
    results last; files of other names stay. Raises RunFailed where something cannot be written: unless it was the
    placing itself that failed, the folder then holds what it held before.
    """
    try:
        make_folder(folder)
    except Refused as error:  # it was there before the run: what it lacks now is no matter of the request
        raise RunFailed(error.reason) from error
    style = TextStyle()

    def write_json(value: Any) -> Writer:
        return lambda stream: JSON.write_plain(value, stream, style)

    cost = compute_plain_cost(document.cost, document.extras.get("budget"))
    _write_files(
        folder,
        {
            "cost.json": write_json(cost),
            "session.yaml": lambda stream: _write_text(session, stream),
            "resolved.json": write_json(resolved),
            "view.json": write_json(view),
            RESULTS: lambda stream: JSON.write(document, stream, style),
        },
    )


def compute_view(document: Document) -> dict[str, Any]:
    """Return what a replay needs beside the results: the machine's capacity and each result's worst time error."""
    return {
        "schema": SCHEMA,
        "capacity": {"cpus": document.environment.get("cpus")},
        "results": [
            {
                "source": result.resolved.entry.id,
                "scope": result.scope,
                "unit": result.resolved.unit,
                "ts_err_ns": result.ts_err_ns,
            }
            for result in document.results
        ],
    }


def _write_files(folder: Path, writers: Mapping[str, Writer]) -> None:
    written: dict[str, str] = {}
    try:
        for name, write in writers.items():
            descriptor, written[name] = tempfile.mkstemp(dir=folder, prefix=f".{name}.")  # mode 0600
            with open(descriptor, "wb") as stream:
                write(stream)
        for name in writers:
            os.replace(written[name], folder / name)
            del written[name]
    except OSError as error:
        raise RunFailed(f"run {str(folder)!r} cannot be written: {error.strerror}") from error
    finally:
        for path in written.values():
            with contextlib.suppress(OSError):
                os.unlink(path)


def _write_text(text: str, stream: BinaryIO) -> None:
    stream.write(text.encode("utf-8", "surrogateescape"))
