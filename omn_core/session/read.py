"""Reading a session from a file or from standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from omn_core.errors import RequestError
from omn_core.located import Located, LocatedError, parse_json, parse_toml, parse_yaml
from omn_core.model.request import Session
from omn_core.names import render_printable
from omn_core.session.shape import make_session

PARSERS: dict[str, Callable[[str], Located]] = {"yaml": parse_yaml, "json": parse_json, "toml": parse_toml}
"""The input formats, by the name `--input-format` takes."""

_EXTENSIONS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
_LARGEST_BYTES = 4 << 20


def read_session(place: str, input_format: str | None = None) -> Session:
    """Read a session. `place` is a path or `-` for standard input, which is YAML unless `input_format` says another.

    Raises RequestError with the file, the line and one reason.
    """
    shown = "standard input" if place == "-" else render_printable(place)
    chosen = input_format or ("yaml" if place == "-" else _EXTENSIONS.get(Path(place).suffix.lower()))
    if chosen is None:
        raise RequestError(
            f"{shown}: its extension says no format", f"pass --input-format, one of {', '.join(PARSERS)}"
        )
    text = _read_text(place, shown)
    try:
        return make_session(PARSERS[chosen](text))
    except LocatedError as error:
        line = "" if error.line is None else f":{error.line}"
        raise RequestError(f"{shown}{line}: {error.reason}") from error


def _read_text(place: str, shown: str) -> str:
    try:
        if place == "-":
            content = sys.stdin.buffer.read(_LARGEST_BYTES + 1)
        else:
            with open(place, "rb") as file:
                content = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise RequestError(f"{shown}: this session cannot be read: {error.strerror}") from error
    if len(content) > _LARGEST_BYTES:
        raise RequestError(f"{shown}: a session is at most {_LARGEST_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"{shown}: it is not UTF-8 (byte {error.start})") from error
