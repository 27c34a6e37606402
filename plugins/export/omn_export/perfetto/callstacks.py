"""Callstacks of events, interned: a name, a file, a frame and a stack each stand once in a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from omn_export.perfetto.annotations import clean_text


@attrs.frozen
class StackFrame:
    """One frame: the function's name, and the file that holds it where that is known."""

    name: str
    object: str | None = None


class Callstacks:
    """The callstacks of one sequence, by ids that count from 1."""

    def __init__(self) -> None:
        self._frames: dict[StackFrame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}

    def intern(self, frames: Sequence[StackFrame]) -> int:
        """Return the id of a callstack, its outermost frame first."""
        stack = tuple(self._frames.setdefault(frame, len(self._frames) + 1) for frame in frames)
        return self._stacks.setdefault(stack, len(self._stacks) + 1)

    def fill(self, interned: Any) -> None:
        """Write every callstack and what it is made of into an InternedData."""
        names: dict[str, int] = {}
        paths: dict[str, int] = {}
        for frame, iid in self._frames.items():
            row = interned.frames.add(iid=iid, function_name_id=names.setdefault(frame.name, len(names) + 1))
            if frame.object is not None:
                row.mapping_id = paths.setdefault(frame.object, len(paths) + 1)
        for name, iid in names.items():
            interned.function_names.add(iid=iid, str=clean_text(name).encode())
        for path, iid in paths.items():
            interned.mapping_paths.add(iid=iid, str=clean_text(path).encode())
            interned.mappings.add(iid=iid, path_string_ids=[iid])
        for stack, iid in self._stacks.items():
            interned.callstacks.add(iid=iid, frame_ids=stack)
