"""Whether an answer is divided by something, so that a reading needs a row for each of it."""

from __future__ import annotations

import re

from omn_core.api import ResolvedRequest


def is_divided_by(resolved: ResolvedRequest, name: str) -> bool:
    """Tell whether a key, the filter or an emit names something. Raw rows alone divide nothing.

    What is counted at one instant adds up over its parts, and what is counted at several instants does not, so that a
    series over time must not mix the parts: a poll has rows of parts only where they are told apart.
    """
    if name in resolved.keys or any(emit.attribute == name for emit in resolved.emits):
        return True
    return re.search(rf"\b{re.escape(name)}\b", resolved.request.filter or "") is not None
