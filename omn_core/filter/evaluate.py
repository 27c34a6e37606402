"""A predicate over whole columns. A field that an event does not carry compares false, whatever the operator."""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from omn_core.filter.grammar import Combination, Comparison, Filter, Literal, Negation, Node
from omn_core.model.batch import Batch, Column

Mask = npt.NDArray[np.bool_]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_GREATEST_FLOAT = int(sys.float_info.max)


def apply_filter(predicate: Filter, batch: Batch, value: str) -> tuple[Mask, tuple[str, ...]]:
    """Return a mask of the events that match, and the fields that no event of the batch carries.

    `value` names the attribute that the word `value` stands for. A negation turns the answer of what it negates, so an
    event without the field does match `not field == 1`.
    """
    columns = {field: batch.column(value if field == "value" else field) for field in predicate.fields}
    absent = tuple(field for field, column in columns.items() if column is None or not column.is_present.any())
    return _evaluate(predicate.root, columns, len(batch)), absent


def _evaluate(node: Node, columns: dict[str, Column | None], length: int) -> Mask:
    if isinstance(node, Comparison):
        return _compare(node, columns[node.field], length)
    if isinstance(node, Negation):
        return ~_evaluate(node.inner, columns, length)
    masks = [_evaluate(part, columns, length) for part in node.parts]
    join = np.logical_and if isinstance(node, Combination) and node.word == "and" else np.logical_or
    return np.asarray(join.reduce(masks))


def _compare(node: Comparison, column: Column | None, length: int) -> Mask:
    if column is None:
        return np.zeros(length, bool)
    if column.names is not None:
        return _compare_texts(node, column)
    matched = np.zeros(length, bool)
    for literal in node.literals:
        if not isinstance(literal, str):
            matched |= _compare_numbers(column.values, "==" if node.operator == "in" else node.operator, literal)
    return matched & column.is_present


def _compare_numbers(values: Any, symbol: str, literal: Literal) -> Mask:
    if isinstance(literal, int) and values.dtype.kind in "iu":
        bounds = np.iinfo(values.dtype)
        if not bounds.min <= literal <= bounds.max:
            # No value of the column can equal it; every value lies on the same side of it.
            return np.full(len(values), _OPERATORS[symbol](0, literal))
        literal = values.dtype.type(literal)
    elif isinstance(literal, int) and abs(literal) > _GREATEST_FLOAT:
        literal = math.inf if literal > 0 else -math.inf
    return np.asarray(_OPERATORS[symbol](values, literal))


def _compare_texts(node: Comparison, column: Column) -> Mask:
    """Decide each distinct text once, then look every event's code up."""
    assert column.names is not None
    matches = make_text_test(node)
    codes, inverse = np.unique(column.values, return_inverse=True)
    decided = np.array([code >= 0 and matches(column.names.text(code)) for code in codes.tolist()], bool)
    return np.asarray(decided[inverse])


def make_text_test(node: Comparison) -> Callable[[str], bool]:
    """Make the test of a text that a comparison stands for."""
    if node.operator == "in":
        wanted = set(node.literals)
        return lambda text: text in wanted
    literal = node.literals[0]
    if node.operator == "=~":
        pattern = re.compile(str(literal))
        return lambda text: pattern.search(text) is not None
    compare = _OPERATORS[node.operator]
    return lambda text: isinstance(literal, str) and bool(compare(text, literal))
