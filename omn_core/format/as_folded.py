r"""The folded format: one stack a line, from the outermost frame to the innermost, `;` between them, its weight last.

The format has no escapes of its own. What would read as something else is written as omn writes bytes that are no
text: `;` as `\x3b`, whatever does not print likewise, and the space before a number that ends a name as `\x20`, which
scripts would take for the first of two weights. A frame without a name is `[unnamed]`, and a stack without a frame
`[no stack]`: a script drops what is empty at a line's end. A stack that weighs nothing has no line: a graph has no
width for it, and a thread that only gave way would stand among those that blocked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO

from omn_core.errors import RequestError
from omn_core.model.style import TextStyle
from omn_core.names import render_printable

if TYPE_CHECKING:
    from omn_core.model.result import Document

_NUMBER_AT_THE_END = re.compile(r"\s(\d+(?:\.\d*)?)$")
UNNAMED = "[unnamed]"
NO_STACK = "[no stack]"


class FoldedEncoder:
    """The stacks of a run as text that flame graph scripts read. Series that keys divide stand under their key."""

    def write(self, document: Document, stream: BinaryIO, style: TextStyle) -> None:
        """Write a run, a line at a time."""
        from omn_core.format.stacks import compute_roots, iter_stack_series

        fold = _Folding()
        for series, roots in compute_roots(iter_stack_series(document)):
            head = [_separate(root) for root in roots]
            for stack in (one for one in series.stacks if one.weight):
                labels = [fold.label(frame.label) for frame in stack.frames] or [NO_STACK]
                stream.write(f"{';'.join([*head, *labels])} {render_weight(stack.weight)}\n".encode())

    def write_plain(self, value: Any, stream: BinaryIO, style: TextStyle) -> None:
        """Refuse: the format's row says that it carries runs alone."""
        raise RequestError("the format folded holds runs alone")


class _Folding:
    """Labels as the format spells them, each computed once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def label(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = fold_label(text)
        return known


def fold_label(text: str) -> str:
    """Return a frame's label without anything that a script would read as something else."""
    return _NUMBER_AT_THE_END.sub(r"\\x20\1", _separate(text)) or UNNAMED


def _separate(text: str) -> str:
    return render_printable(text).replace(";", "\\x3b")


def render_weight(weight: float) -> str:
    """Return a weight as digits, with a fraction where it has one and never an exponent."""
    if weight == int(weight):
        return str(int(weight))
    return f"{weight:.6f}".rstrip("0").rstrip(".")


FOLDED = FoldedEncoder()
