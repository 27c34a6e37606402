"""The line of every value of a JSON document, which Python's own parser does not keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from omn_core.located import Path

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def iter_json_lines(text: str) -> Iterator[tuple[Path, int]]:
    """Iterate over (path, 1-based line) of each value of a valid document, from the root down, in its order.

    A field stands on the line of its name. One that is written twice comes twice.
    """
    path: list[str | int] = []
    line, counted = 1, 0
    names = False  # whether the next string is a field's name
    for token in _TOKEN.finditer(text):
        line += text.count("\n", counted, token.start())
        counted = token.start()
        spelled = token[0]
        if spelled == ":":
            names = False
        elif spelled == ",":
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else last
            names = isinstance(last, str)
        elif spelled in "}]":
            path.pop()
            names = False
        elif names:
            path[-1] = json.loads(spelled, strict=False)
            yield tuple(path), line
        else:
            if not path or isinstance(path[-1], int):
                yield tuple(path), line
            if spelled in "{[":
                path.append("" if spelled == "{" else 0)
                names = spelled == "{"
