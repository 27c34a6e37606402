"""The link from an option to its completion, so light that naming it costs nothing where nobody completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Offer = Callable[[Any, Any, str], list[Any]]
"""What click asks for completions: called with the context, the parameter and what was typed."""


def offer(what: str) -> Offer:
    """Return click's `shell_complete` for the words of a kind (`omn_core.cli.candidates`)."""

    def complete(context: Any, _parameter: Any, incomplete: str) -> list[Any]:
        from omn_core.cli.candidates import iter_candidates

        return iter_candidates(what, context, incomplete)

    return complete
