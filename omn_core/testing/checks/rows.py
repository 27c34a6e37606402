"""What a plugin's rows name, imported and looked at."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from omn_core.model.collector import Collector
from omn_core.model.target import KINDS
from omn_core.testing.checks.guard import call_guarded
from omn_core.testing.checks.subject import Subject, get_identity


def check_references(subject: Subject) -> Iterator[str]:
    """Each reference imports and names something; those that are called can be."""
    for what, reference in subject.iter_references():
        found, problem = load(subject, reference)
        if problem is not None:
            yield f"{what} names {reference!r}: {problem}"
        elif what.partition(" ")[0] in ("collectors", "requirements", "targets") and not callable(found):
            yield f"{what} names {reference!r}, which cannot be called"


def load(subject: Subject, reference: str) -> tuple[Any, str | None]:
    """Import what a row names, and say why that failed where it did."""
    return call_guarded(subject.registry.load, reference)


def check_collectors(subject: Subject) -> Iterator[str]:
    """Each factory makes, of no arguments, an object with every call of a collector's life, taking what it is given."""
    for row in subject.record.rows.get("collectors", []):
        factory, problem = load(subject, row.factory)
        if problem is not None or not callable(factory):
            continue  # a reference's own check names it
        collector, problem = call_guarded(factory)
        if problem is not None:
            yield f"{get_identity(row)}: {row.factory}() raised {problem}"
            continue
        for line in _check_calls(collector):
            yield f"{get_identity(row)}: {row.factory} {line}"


def _check_calls(collector: Any) -> Iterator[str]:
    for name, declared in inspect.getmembers(Collector, inspect.isfunction):
        if name.startswith("_"):
            continue
        method = getattr(collector, name, None)
        if not callable(method):
            yield f"has no {name}()"
            continue
        given = [parameter for parameter in inspect.signature(declared).parameters if parameter != "self"]
        try:
            inspect.signature(method).bind(*given)
        except TypeError as error:
            yield f"cannot be called as {name}({', '.join(given)}): {error}"


def check_targets(subject: Subject) -> Iterator[str]:
    """The kinds of target are a closed list."""
    for row in subject.record.rows.get("targets", []):
        if row.kind not in KINDS:
            yield f"{row.kind!r} is no kind of target; the kinds are {', '.join(KINDS)}"
