"""The filter grammar, and its parser.

    filter     = either
    either     = both { "or" both }
    both       = negation { "and" negation }
    negation   = "not" negation | "(" either ")" | comparison
    comparison = FIELD ("==" | "!=" | "<" | "<=" | ">" | ">=" | "=~") LITERAL
               | FIELD [ "not" ] "in" "(" LITERAL { "," LITERAL } ")"

A literal is a number or a quoted text; a list may stand in square brackets too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from omn_core.errors import RequestError

Literal = int | float | str

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>[-+]?(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?))(?![\w.])"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<operator>==|!=|<=|>=|=~|<|>|\(|\)|\[|\]|,)|(?P<word>[A-Za-z_][\w.]*)"
)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "=~")
_MAXIMUM_LENGTH = 16384
_MAXIMUM_DEPTH = 64
_MAXIMUM_DIGITS = 400


@attrs.frozen(repr=False)
class Comparison:
    """A field against one literal (`in`: against several). `column` is 1-based, for a complaint that points."""

    field: str
    operator: str
    literals: tuple[Literal, ...]
    column: int


@attrs.frozen(repr=False)
class Negation:
    """The opposite of a node."""

    inner: Node


@attrs.frozen(repr=False)
class Combination:
    """Nodes joined by `and` or by `or`."""

    word: str
    parts: tuple[Node, ...]


Node = Comparison | Negation | Combination


@attrs.frozen(repr=False)
class Filter:
    """A parsed predicate: its text as written, and its tree."""

    text: str
    root: Node

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every comparison, left to right."""
        return tuple(_iter_comparisons(self.root))

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field it names, once each, left to right."""
        return tuple(dict.fromkeys(comparison.field for comparison in self.comparisons))

    @property
    def equalities(self) -> tuple[tuple[str, Literal], ...] | None:
        """The (field, literal) pairs when it is nothing but one-value `==` joined by `and`, else None.

        This is the only form that a program in the kernel compares.
        """
        parts = self.root.parts if isinstance(self.root, Combination) and self.root.word == "and" else (self.root,)
        pairs = [
            (part.field, part.literals[0]) for part in parts if isinstance(part, Comparison) and part.operator == "=="
        ]
        return tuple(pairs) if len(pairs) == len(parts) else None


def _iter_comparisons(node: Node) -> Iterator[Comparison]:
    if isinstance(node, Comparison):
        yield node
    elif isinstance(node, Negation):
        yield from _iter_comparisons(node.inner)
    else:
        for part in node.parts:
            yield from _iter_comparisons(part)


@attrs.frozen(repr=False)
class _Token:
    kind: str
    text: str
    column: int


def compile_filter(text: str) -> Filter:
    """Parse a predicate. Raises RequestError that points at the column where it stops making sense."""
    if len(text) > _MAXIMUM_LENGTH:
        raise RequestError(f"a filter is at most {_MAXIMUM_LENGTH} characters long, and this one is {len(text)}")
    parser = _Parser(text, list(_iter_tokens(text)))
    root = parser.parse_either(0)
    parser.expect_end()
    return Filter(text, root)


def make_complaint(text: str, column: int, reason: str) -> RequestError:
    """Return the error for a column (1-based) of a filter, with the filter and a mark under it."""
    # One character for each, so that the mark stands under its column.
    shown = "".join(character if character.isprintable() else " " for character in text)
    return RequestError(f"filter, column {column}: {reason}\n  {shown}\n  {' ' * (column - 1)}^")


def _iter_tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            what = "this quote is not closed" if text[position] in "'\"" else f"{text[position]!r} starts no word"
            raise make_complaint(text, position + 1, what)
        if match.lastgroup != "space":
            yield _Token(match.lastgroup or "", match.group(), position + 1)
        position = match.end()
    yield _Token("end", "", len(text) + 1)


class _Parser:
    """Recursive descent over the tokens, one method per rule."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *texts: str) -> _Token | None:
        token = self._token
        if token.kind in ("word", "operator") and token.text in texts:
            self._next += 1
            return token
        return None

    def _fail(self, reason: str) -> RequestError:
        return make_complaint(self._text, self._token.column, reason)

    def expect_end(self) -> None:
        if self._token.kind != "end":
            raise self._fail(f"'and', 'or' or the end belongs here, not {self._token.text!r}")

    def parse_either(self, depth: int) -> Node:
        return self._parse_joined("or", depth)

    def _parse_joined(self, word: str, depth: int) -> Node:
        parts = []
        while True:
            parts.append(self._parse_joined("and", depth) if word == "or" else self._parse_negation(depth))
            if self._take(word) is None:
                return parts[0] if len(parts) == 1 else Combination(word, tuple(parts))

    def _parse_negation(self, depth: int) -> Node:
        if depth > _MAXIMUM_DEPTH:
            raise self._fail(f"parentheses nest deeper than {_MAXIMUM_DEPTH}")
        if self._take("not"):
            return Negation(self._parse_negation(depth + 1))
        if self._take("("):
            inner = self.parse_either(depth + 1)
            if self._take(")") is None:
                raise self._fail("a ')' belongs here")
            return inner
        return self._parse_comparison()

    def _parse_comparison(self) -> Node:
        field = self._token
        if field.kind != "word" or field.text in ("and", "or", "in", "not"):
            raise self._fail("a field belongs here" + ("" if field.kind == "end" else f", not {field.text!r}"))
        self._next += 1
        negated = self._take("not") is not None
        if self._take("in"):
            comparison: Node = Comparison(field.text, "in", self._parse_list(), field.column)
            return Negation(comparison) if negated else comparison
        operator = None if negated else self._take(*_COMPARISONS)
        if operator is None:
            raise self._fail(
                "'in' belongs here" if negated else f"one of {' '.join(_COMPARISONS)} or 'in' belongs here"
            )
        return Comparison(field.text, operator.text, (self._parse_literal(operator.text),), field.column)

    def _parse_list(self) -> tuple[Literal, ...]:
        opening = self._take("(", "[")
        if opening is None:
            raise self._fail("a list in parentheses belongs here")
        closing = ")" if opening.text == "(" else "]"
        literals = [self._parse_literal("in")]
        while self._take(","):
            literals.append(self._parse_literal("in"))
        if self._take(closing) is None:
            raise self._fail(f"a ',' or {closing!r} belongs here")
        return tuple(literals)

    def _parse_literal(self, operator: str) -> Literal:
        token = self._token
        if token.kind == "text":
            literal: Literal = token.text[1:-1]
        elif token.kind == "number":
            literal = self._read_number(token.text)
        else:
            hint = f"; a text is quoted: '{token.text}'" if token.kind == "word" else ""
            raise self._fail(f"a number or a quoted text belongs here{hint}")
        if operator == "=~":
            self._check_pattern(literal)
        self._next += 1
        return literal

    def _read_number(self, text: str) -> int | float:
        if len(text) > _MAXIMUM_DIGITS:
            raise self._fail(f"a number is at most {_MAXIMUM_DIGITS} characters long")
        digits = text.lstrip("+-")
        if digits.startswith("0x"):
            return int(text, 16)
        return int(text) if digits.isdigit() else float(text)

    def _check_pattern(self, literal: Literal) -> None:
        if not isinstance(literal, str):
            raise self._fail("=~ compares with a quoted regular expression")
        try:
            re.compile(literal)
        except (re.error, OverflowError, RecursionError) as error:  # the last two for a repeat or a nesting too great
            raise self._fail(f"this regular expression does not compile: {error}") from None
