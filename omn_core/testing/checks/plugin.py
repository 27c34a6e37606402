"""The plugin module itself: how it is found, what it states, and what its hooks return."""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints

from omn_core import hookspecs
from omn_core.model.rows import (
    CollectorRow,
    CommandRow,
    EmitRow,
    FormatRow,
    RequirementRow,
    StackRow,
    TargetRow,
    ViewRow,
)
from omn_core.testing.checks.guard import call_guarded
from omn_core.testing.checks.subject import Subject, get_identity

_ROWS: dict[str, type[Any]] = {
    "omn_collectors": CollectorRow,
    "omn_requirements": RequirementRow,
    "omn_targets": TargetRow,
    "omn_stacks": StackRow,
    "omn_emits": EmitRow,
    "omn_formats": FormatRow,
    "omn_views": ViewRow,
    "omn_commands": CommandRow,
}


def check_load(subject: Subject) -> Iterator[str]:
    """The plugin loaded whole: each reason that the registry keeps against it is a line."""
    if subject.record.state != "loaded":
        for reason in (subject.record.reason or "no reason is known").split("; "):
            yield f"{subject.record.name} is {subject.record.state}: {reason}"


def check_entry_point(subject: Subject) -> Iterator[str]:
    """The entry point carries the family's name and names a module called plugin; its sources are the family's."""
    name = subject.record.name
    if not (name.isascii() and name.isidentifier() and name == name.lower()):
        yield f"the entry point {name!r} is no lower-case word"
    entries = [] if subject.installed is None else subject.installed.entry_points.select(group=hookspecs.GROUP)
    for entry in entries:
        if entry.name == name and (entry.attr or entry.module.rpartition(".")[2] != "plugin"):
            yield f"the entry point {name!r} names {entry.value!r}, not a module called plugin"
    for found in subject.entries:
        if found.family != name:
            yield f"the source {found.id!r} is of the family {found.family!r}, and the entry point's name is {name!r}"


def check_contract(subject: Subject) -> Iterator[str]:
    """`OMN_CONTRACT` is text, and its major version is the one this core speaks."""
    if subject.record.module is None:
        return
    stated = getattr(subject.record.module, "OMN_CONTRACT", None)
    ours = ".".join(map(str, hookspecs.CONTRACT))
    parts = stated.split(".") if isinstance(stated, str) else []
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        yield f"OMN_CONTRACT is {stated!r}; this core's is {ours!r}"
    elif parts[0] != str(hookspecs.CONTRACT[0]):
        yield f"it was written for contract {stated}, and this core has {ours}"


def check_hooks(subject: Subject) -> Iterator[str]:
    """Every function named like a hook is one, carries its mark, and returns rows of its kind with fields of theirs."""
    if subject.record.module is None:
        return
    for name, function in sorted(vars(subject.record.module).items()):
        if not name.startswith("omn_") or not isinstance(function, types.FunctionType):
            continue
        if not hasattr(hookspecs, name):
            yield f"{name} is no hook of this contract"
        elif not hasattr(function, "omn_impl"):
            yield f"{name} carries no @hookimpl, so nothing calls it"
        elif name == "omn_catalog":
            yield from _check_catalog_hook(function)
        elif name in _ROWS:
            yield from _check_rows(name, function, _ROWS[name])


def _check_catalog_hook(function: Any) -> Iterator[str]:
    package, problem = call_guarded(function)
    if problem is not None:
        yield f"omn_catalog raised {problem}"
    elif not isinstance(package, str):
        yield f"omn_catalog returned {package!r}, not a package's name"
    elif call_guarded(importlib.util.find_spec, package)[0] is None:
        yield f"omn_catalog returned {package!r}, which is no package here"


def _check_rows(name: str, function: Any, kind: type[Any]) -> Iterator[str]:
    rows, problem = call_guarded(function)
    if problem is not None:
        yield f"{name} raised {problem}"
        return
    if not isinstance(rows, list | tuple):
        yield f"{name} returned {rows!r}, not a list of {kind.__name__}"
        return
    hints = get_type_hints(kind)
    for index, row in enumerate(rows):
        if not isinstance(row, kind):
            yield f"{name} row {index} is {row!r}, not a {kind.__name__}"
            continue
        for field, hint in hints.items():
            if not _is_of(getattr(row, field), hint):
                yield f"{name} row {get_identity(row)!r} has {field}={getattr(row, field)!r}, not of its type"


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a row's value is of its declared type; of a container only the outermost type is looked at."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_is_of(value, part) for part in get_args(hint))
    return isinstance(value, origin or hint)
