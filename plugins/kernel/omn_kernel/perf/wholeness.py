"""How whole the stacks of samples are: which are cut, which end in the dark, which frames are inferred."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import numpy as np
import numpy.typing as npt

from omn_kernel.perf.call_stacks import Ending
from omn_kernel.perf.unwinding import Unwinder
from omn_kernel.unwind.choosing import FP_LEAF, StackWalk


@attrs.define(eq=False)
class Wholeness:
    """An account of the stacks that were walked so. `unwinder` is None where none are walked."""

    walk: StackWalk
    unwinder: Unwinder | None
    _endings: npt.NDArray[np.uint8] = attrs.field(factory=lambda: np.zeros(0, np.uint8))
    _recovered: int = 0

    def note(self, endings: npt.NDArray[np.uint8], recovered: int) -> None:
        """Take the endings of all stacks, and how many of their frames were recovered."""
        self._endings, self._recovered = endings, recovered

    def count(self) -> Mapping[str, int]:
        """Return how many stacks are not whole, and how many frames were recovered where a walk does that."""
        if self.unwinder is None:
            return {}
        counts = {"cut_stacks": self._count(Ending.CUT), "unfinished_stacks": self._count(Ending.BLIND)}
        return {**counts, "recovered_frames": self._recovered} if self.walk == FP_LEAF else counts

    def describe(self) -> Iterator[str]:
        """Say which stacks lack their outer calls, and why."""
        cut, blind, every = self._count(Ending.CUT), self._count(Ending.BLIND), len(self._endings)
        if cut:
            yield f"{cut} of {every} stacks are cut: they are deeper than {self._describe_depth()}"
        if blind:
            yield f"{blind} of {every} stacks end where the code does not say who called it"

    def _count(self, ending: Ending) -> int:
        return int((self._endings == ending).sum())

    def _describe_depth(self) -> str:
        if self.unwinder is None or not self.walk.has_user_chains:
            return f"the {self.walk.stack_bytes} bytes that are copied of each"
        return f"the {self.unwinder.most_frames} frames that the kernel walks (kernel.perf_event_max_stack)"
