"""The run's stacks: each distinct one once, as numbers of frames, each distinct frame once. Events carry the number."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

FUNC, OBJECT, WITHIN = "func", "object", "within"
STACK_KEYS = (FUNC, OBJECT, WITHIN)
"""The keys that are read from an event's stack, which no collector gives: its innermost frame's function and the file
that holds it, and every function of it, the one key that puts an event in several series."""


@attrs.frozen(cache_hash=True)
class Frame:
    """One function of a stack, as stacks and every format of them show it.

    `object` is the file that holds it, or what the kernel calls memory that is no file; None where the address was in
    nothing known. `named_by` says what gave it its name, None exactly where it has none. `build_id` is the file's,
    None where it has none or nobody read it.
    """

    label: str
    object: str | None = None
    named_by: str | None = None
    build_id: str | None = None


class Stacks:
    """The run's table of stacks, as `Names` is that of texts: a number stands for one stack for the whole run."""

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._frame_codes: dict[Frame, int] = {}
        self._stacks: list[tuple[int, ...]] = []
        self._codes: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return len(self._stacks)

    def intern_frame(self, frame: Frame) -> int:
        """Return the number of a frame, giving it the next one if it is new."""
        code = self._frame_codes.get(frame)
        if code is None:
            code = self._frame_codes[frame] = len(self._frames)
            self._frames.append(frame)
        return code

    def intern(self, frames: Sequence[int]) -> int:
        """Return the number of a stack of frames, the innermost first, giving it the next one if it is new."""
        stack = tuple(frames)
        code = self._codes.get(stack)
        if code is None:
            code = self._codes[stack] = len(self._stacks)
            self._stacks.append(stack)
        return code

    def get_frames(self, stack: int) -> list[Frame]:
        """Return the frames of an interned stack, the innermost first. Raises IndexError for a number of none."""
        return [self._frames[code] for code in self.get_codes(stack)]

    def get_codes(self, stack: int) -> tuple[int, ...]:
        """Return the numbers of a stack's frames, the innermost first. Raises IndexError for a number of none."""
        if stack < 0:
            raise IndexError(f"{stack} is the number of no stack")
        return self._stacks[stack]

    @property
    def frames(self) -> Sequence[Frame]:
        """Every frame, at its number."""
        return self._frames
