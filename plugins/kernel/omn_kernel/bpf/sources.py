"""Which line of Python emitted an instruction."""

from __future__ import annotations

import sys
from types import FrameType

import attrs

_PACKAGE = "omn_kernel.bpf"
_WRITERS = frozenset({f"{_PACKAGE}.{module}" for module in ("sources", "assembly", "reading", "records")})


@attrs.frozen(repr=False)
class Line:
    """A line of a program's source."""

    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}:{self.number}"


def find_lines() -> tuple[Line, ...]:
    """Find the lines that emit something now: of a piece that programs share first, of the program itself last."""
    lines: list[Line] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        # A block of a `with` statement is emitted through contextlib.
        if module not in _WRITERS and module != "contextlib":
            lines.append(Line(frame.f_code.co_filename, frame.f_lineno))
            if not module.startswith(_PACKAGE):
                break
        frame = frame.f_back
    return tuple(lines)
