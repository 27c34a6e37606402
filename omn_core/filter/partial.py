"""A predicate over what is known before there is an event: whether one that says so much may match."""

from __future__ import annotations

from collections.abc import Mapping

from omn_core.filter.evaluate import make_text_test
from omn_core.filter.grammar import Comparison, Filter, Negation, Node


def may_match(predicate: Filter, known: Mapping[str, str]) -> bool:
    """Tell whether an event may match of which the texts of some fields are known, and nothing else."""
    return _decide(predicate.root, known) is not False


def _decide(node: Node, known: Mapping[str, str]) -> bool | None:
    """Return what the node comes to, None where that depends on what is not known."""
    if isinstance(node, Comparison):
        return make_text_test(node)(known[node.field]) if node.field in known else None
    if isinstance(node, Negation):
        inner = _decide(node.inner, known)
        return None if inner is None else not inner
    answers = [_decide(part, known) for part in node.parts]
    settles = node.word == "or"
    if settles in answers:
        return settles
    return None if None in answers else not settles
