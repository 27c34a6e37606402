"""Plain values read from a file, each with the line it stands on, so that a refusal can name its place.

YAML is read through its node graph: duplicate keys, tags that would make objects, recursion and aliases that multiply
are refused before any value is built.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import attrs

Path = tuple[str | int, ...]

MAXIMUM_NODES = 100_000
"""How many values a file may expand to, aliases followed. A catalog has some thousand, an alias bomb billions."""

MAXIMUM_DEPTH = 40
"""How deep values may nest."""

_LONGEST_INTEGER = 40
"""How many digits a whole number may have; 2^128 has 39."""

_TOO_MANY_DIGITS = "a number here has more digits than any that is read"  # Python converts 4300 at most


@attrs.frozen
class LocatedError(ValueError):
    """A file that cannot be read as values: its 1-based line when one is known, and one lowercase reason."""

    line: int | None
    reason: str

    def __str__(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


@attrs.frozen
class Located:
    """Plain values (dict, list, str, int, float, bool, None) and the line of each, by its path from the root."""

    value: Any
    lines: Mapping[Path, int] = attrs.field(factory=dict)

    def line(self, path: Path) -> int | None:
        """Return the line of a path or of its nearest parent that has one, None where none is known (TOML)."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def parse_yaml(text: str) -> Located:
    """Read one YAML 1.2 document. Raises LocatedError with the line of what is wrong."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML allows it: the latest one counts
            node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context).split())
        raise LocatedError(None if mark is None else mark.line + 1, _explain(problem)) from None
    except YAMLError as error:
        raise LocatedError(None, " ".join(str(error).split())) from None
    except RecursionError:
        raise LocatedError(None, f"values nest deeper than {MAXIMUM_DEPTH}") from None
    if node is None:
        return Located(None)
    builder = _Builder()
    return Located(builder.build(node, ()), builder.lines)


def _explain(problem: str) -> str:
    if "\\t" in problem:
        return "a tab indents here; YAML is indented with spaces"
    return problem


class _Builder:
    """Builds plain values from nodes, counting them, and keeps the line of each."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self._count = 0
        self._open: set[int] = set()

    def build(self, node: Any, path: Path) -> Any:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > MAXIMUM_NODES:
            raise LocatedError(
                line, f"a file holds at most {MAXIMUM_NODES} values, those of aliases counted where they stand"
            )
        if len(path) > MAXIMUM_DEPTH:
            raise LocatedError(line, f"values nest deeper than {MAXIMUM_DEPTH}")
        if id(node) in self._open:
            raise LocatedError(line, "an alias stands inside what it names")
        self.lines.setdefault(path, line)
        self._open.add(id(node))
        try:
            return self._build_kind(node, path)
        finally:
            self._open.discard(id(node))

    def _build_kind(self, node: Any, path: Path) -> Any:
        if node.id == "scalar":
            return _scalar(node)
        if node.tag and str(node.tag) not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise LocatedError(node.start_mark.line + 1, f"the tag {node.tag} makes no plain value")
        if node.id == "sequence":
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _key(key_node)
            if key in mapping:
                raise LocatedError(key_node.start_mark.line + 1, f"{key!r} is written twice")
            mapping[key] = self.build(value_node, (*path, key))
            self.lines[(*path, key)] = key_node.start_mark.line + 1
        return mapping


def _key(node: Any) -> str:
    line = node.start_mark.line + 1
    if node.id != "scalar":
        raise LocatedError(line, "a field's name is a word, not a list or a mapping")
    if node.value == "<<":
        raise LocatedError(line, "merge keys (<<) are not read")
    return str(node.value)


def _scalar(node: Any) -> Any:
    tag = str(node.tag).rpartition(":")[2]
    text: str = node.value
    line = node.start_mark.line + 1
    try:
        match tag:
            case "null":
                return None
            case "bool":
                return _boolean(text)
            case "int":
                return _integer(text)
            case "float":
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
            case "str" | "timestamp":
                return _encodable(text, line)
    except LocatedError as error:
        raise LocatedError(line, error.reason) from error
    except ValueError as error:
        raise LocatedError(line, f"{text!r} is no {tag}") from error
    raise LocatedError(line, f"the tag {node.tag} makes no plain value")


def _encodable(text: str, line: int | None) -> str:
    """Return a text that is one. Raises LocatedError for half a surrogate pair, which stands for no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LocatedError(line, f"{text!r} holds half a surrogate pair, which is no character") from error
    return text


def _boolean(text: str) -> bool:
    # A file may declare YAML 1.1, whose other words for the two are texts in the YAML that is read here.
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    for prefix, base in (("0o", 8), ("0x", 16), ("0b", 2)):
        if digits.startswith(prefix):
            return sign * int(digits[2:], base)
    return sign * _decimal(digits)


def _decimal(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise LocatedError(None, _TOO_MANY_DIGITS)
    return int(text)


def parse_json(text: str) -> Located:
    """Read one JSON document. Raises LocatedError; duplicate keys and NaN are refused."""
    import json

    try:
        value = json.loads(text, parse_constant=_no_constant, parse_int=_decimal)
        _bound(value)
        return Located(value, _find_lines(text))
    except json.JSONDecodeError as error:
        raise LocatedError(error.lineno, error.msg[:1].lower() + error.msg[1:]) from None
    except RecursionError:
        raise LocatedError(None, f"values nest deeper than {MAXIMUM_DEPTH}") from None


def _find_lines(text: str) -> dict[Path, int]:
    """Return the line of each value of a JSON document. Raises LocatedError where a field is written twice."""
    from omn_core.json_lines import iter_json_lines

    lines: dict[Path, int] = {}
    for path, line in iter_json_lines(text):
        if path in lines:
            raise LocatedError(line, f"{path[-1]!r} is written twice in one object")
        lines[path] = line
    return lines


def _bound(value: Any) -> None:
    """Hold values that were read to the limits of YAML's, which is read node by node."""
    count, waiting = 0, [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        count += 1
        if count > MAXIMUM_NODES:
            raise LocatedError(None, f"a file holds at most {MAXIMUM_NODES} values")
        if depth > MAXIMUM_DEPTH:
            raise LocatedError(None, f"values nest deeper than {MAXIMUM_DEPTH}")
        if isinstance(one, str):
            _encodable(one, None)
        elif isinstance(one, dict):
            waiting += [(part, depth + 1) for part in one.values()]
            for name in one:
                _encodable(name, None)
        elif isinstance(one, list):
            waiting += [(part, depth + 1) for part in one]


def _no_constant(text: str) -> Any:
    raise LocatedError(None, f"{text} is no JSON number")


def parse_toml(text: str) -> Located:
    """Read one TOML document. Raises LocatedError with the line the parser names."""
    import re
    import tomllib

    try:
        value = tomllib.loads(text)
        _bound(value)
        return Located(value)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        reason = re.sub(r" \(at (line|end).*\)$", "", str(error))
        raise LocatedError(int(found[1]) if found else None, reason[:1].lower() + reason[1:]) from None
    except RecursionError:
        raise LocatedError(None, f"values nest deeper than {MAXIMUM_DEPTH}") from None
    except LocatedError:
        raise
    except ValueError:
        raise LocatedError(None, _TOO_MANY_DIGITS) from None
