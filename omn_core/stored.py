"""A run on disk, read back with suspicion: plain values, and nothing heavy is imported to have them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omn_core import SCHEMA
from omn_core.errors import RequestError

RESULTS = "results.json"
"""The run's authority; the other files repeat or explain parts of it. Its presence says that the run is whole."""

LARGEST_BYTES = 1 << 30
"""The largest results file that is read back."""

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
    "value": (str,),
    "adds_up": (bool,),
    "events_seen": (int,),
    "caveats": (list,),
    "degraded": (list,),
}
_REQUEST: Mapping[str, tuple[type, ...]] = {"source": (str,), "mode": (str,), "emits": (list,), "keys": (list,)}
_TEXTS = ("caveats", "degraded")


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
    check_run(run, path)
    checked: dict[str, Any] = run
    return checked


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


def check_run(run: Any, path: Path, what: str = "a run") -> None:
    """Raise RequestError where plain values lack the parts that every run has: those of a file, or a repeat of it."""
    _check_fields(run, _TOP, path, what)
    schema = run["omn"].get("schema")
    if schema != SCHEMA:
        raise _complain(path, f"its schema is {schema!r}, and this omn reads {SCHEMA}")
    for place, result in enumerate(run["results"]):
        _check_fields(result, _RESULT, path, f"results[{place}]")
        _check_fields(result["request"], _REQUEST, path, f"the request of results[{place}]")
        lists = {name: result[name] for name in _TEXTS} | {name: result["request"][name] for name in ("emits", "keys")}
        for name, texts in lists.items():
            if not all(isinstance(text, str) for text in texts):
                raise _complain(path, f"field {name!r} of results[{place}] holds what is no text")
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
