"""Requirement strings into needs. A string that no installed plugin can read is refused by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from omn_core.model.probe import Need
from omn_core.model.rows import RequirementRow


def parse_need(text: str, classes: Mapping[str, RequirementRow]) -> Need:
    """Read `class`, `class:argument` or `class>=version`.

    Raises ValueError in one clause: the class is unknown (the nearest named), or the argument is not of its form.
    """
    kind, argument = _split(text, classes)
    row = classes.get(kind)
    if row is None:
        near = difflib.get_close_matches(kind, classes, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no installed plugin reads the requirement {text!r}{hint}")
    if row.argument is None and argument:
        raise ValueError(f"the requirement {kind!r} takes no argument, and {text!r} gives one")
    if row.argument is not None and not re.fullmatch(row.argument, argument):
        example = "" if row.example is None else f" (such as {row.example!r})"
        raise ValueError(f"the requirement {text!r} is not of the form its class reads{example}")
    return Need(text, kind, argument)


def _split(text: str, classes: Mapping[str, RequirementRow]) -> tuple[str, str]:
    name, compare, version = text.partition(">=")
    if compare and f"{name}>=" in classes:
        return f"{name}>=", version
    kind, _, argument = text.partition(":")
    return kind, argument
