"""What a check is handed: one plugin, and everything the others need to judge it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Self

import attrs

from omn_core.model.catalog import Catalog, Entry
from omn_core.plugins import PluginRecord, Registry


@attrs.frozen
class Subject:
    """One plugin under the checks: its record, its distribution's metadata, and the entries of its catalog."""

    record: PluginRecord
    registry: Registry
    catalog: Catalog
    installed: Distribution | None
    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, record: PluginRecord, registry: Registry, catalog: Catalog) -> Self:
        """Gather what the checks need. A distribution that lost its metadata is judged by its record alone."""
        try:
            installed = distribution(record.distribution or "")
        except (PackageNotFoundError, ValueError):
            installed = None
        entries = tuple(catalog.entries[source] for source in record.sources if source in catalog.entries)
        return cls(record, registry, catalog, installed, entries)

    @property
    def folder(self) -> Path | None:
        """The folder of the plugin module, None where it did not load."""
        path = None if self.record.module is None else self.record.module.__file__
        return None if path is None else Path(path).parent

    @property
    def package(self) -> str | None:
        """The package of the plugin module, None where it did not load."""
        return None if self.record.module is None else self.record.module.__name__.rpartition(".")[0]

    def iter_references(self) -> Iterator[tuple[str, str]]:
        """Iterate over what the rows name: what each is, for messages, and the reference."""
        for group, rows in self.record.rows.items():
            for row in rows:
                yield f"{group} row {get_identity(row)!r}", get_reference(row)


CheckFunction = Callable[[Subject], Iterator[str]]


def get_reference(row: Any) -> str:
    """Return what a row names, whatever its kind calls the field."""
    for name in ("factory", "probe", "binder", "reference"):
        if hasattr(row, name):
            reference: str = getattr(row, name)
            return reference
    raise TypeError(f"{row!r} is no row")


def get_identity(row: Any) -> str:
    """Return what tells a row from the others of its kind."""
    if hasattr(row, "source"):
        return f"{row.source}/{row.backend}"
    return str(row.kind if hasattr(row, "kind") else row.name)


def normalise_name(name: str) -> str:
    """Return a distribution's name in the one form in which names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
