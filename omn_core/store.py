"""A run on disk: its folder of files, written whole or not at all, and read back with suspicion."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from omn_core.errors import MachineRefused, Refused, RequestError, RunFailed
from omn_core.format.as_json import JSON
from omn_core.format.plain import SCHEMA, compute_plain_cost
from omn_core.model.result import Document
from omn_core.model.style import TextStyle

RESULTS = "results.json"
"""The run's authority; the other files repeat or explain parts of it. Its presence says that the run is whole."""

LARGEST_BYTES = 1 << 30
"""The largest results file that is read back."""

Writer = Callable[[BinaryIO], None]

_TOP: Mapping[str, tuple[type, ...]] = {
    "omn": (dict,),
    "environment": (dict,),
    "window": (dict,),
    "program": (dict, type(None)),
    "results": (list,),
    "cost": (dict,),
}
_RESULT: Mapping[str, tuple[type, ...]] = {
    "request": (dict,),
    "backend": (str,),
    "unit": (str,),
    "scope": (str,),
    "window": (dict,),
    "losses": (dict,),
    "series": (list,),
}


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


def read_run(place: Path) -> dict[str, Any]:
    """Read a run back from its folder, or from a results file, as plain values.

    Raises RequestError, with the place and one reason, for a file that is not there, not a regular file, larger than
    `LARGEST_BYTES`, not JSON, of another schema, or without the parts every run has.
    """
    path = place / RESULTS if place.is_dir() else place
    try:
        content = _read_bounded(path)
    except OSError as error:
        raise RequestError(f"run {str(path)!r} cannot be read: {error.strerror}") from error
    try:
        run = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _complain(path, f"it is not JSON: {error}") from error
    _check(run, path)
    checked: dict[str, Any] = run
    return checked


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


def _read_bounded(path: Path) -> bytes:
    # Opening a fifo that nobody writes to would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _complain(path, "it is not a regular file")
        content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise _complain(path, f"it is larger than {LARGEST_BYTES >> 20} MiB")
    return content


def _check(run: Any, path: Path) -> None:
    _check_fields(run, _TOP, path, "a run")
    schema = run["omn"].get("schema")
    if schema != SCHEMA:
        raise _complain(path, f"its schema is {schema!r}, and this omn reads {SCHEMA}")
    for place, result in enumerate(run["results"]):
        _check_fields(result, _RESULT, path, f"results[{place}]")
        for series in result["series"]:
            _check_fields(series, {"key": (dict,), "emits": (dict,)}, path, f"a series of results[{place}]")


def _check_fields(value: Any, fields: Mapping[str, tuple[type, ...]], path: Path, what: str) -> None:
    if not isinstance(value, dict):
        raise _complain(path, f"{what} is an object, not {type(value).__name__}")
    for name, kinds in fields.items():
        if name not in value:
            raise _complain(path, f"{what} has no field {name!r}")
        if not isinstance(value[name], kinds):
            raise _complain(path, f"field {name!r} of {what} is {type(value[name]).__name__}")


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _complain(path: Path, reason: str) -> RequestError:
    return RequestError(f"{str(path)!r} is not a run that omn wrote: {reason}")
