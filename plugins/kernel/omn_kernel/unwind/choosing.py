"""The ways to walk a stack, as the resolver asks about them: which suits a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from omn_core.api import ProbeContext

if TYPE_CHECKING:
    from omn_core.api import Target


@attrs.frozen
class StackWalk:
    """A way that suits whatever runs."""

    def find_misfit(self, _target: Target, _context: ProbeContext) -> str | None:
        """Return None: it is taken where nothing before it is."""
        return None


FP = StackWalk()
NONE = StackWalk()
