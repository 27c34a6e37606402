"""Which plugins are installed, what each hands over, and what keeps one from doing so.

stevedore finds the entry points, pluggy checks and keeps what they name, and each module is imported, and each hook
called, in a guard of its own. A plugin that fails is a record with a reason; the others go on.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar

import attrs
import pluggy

from omn_core import __version__, hookspecs
from omn_core.errors import PLUGIN_FAULTS
from omn_core.installed import find_declared
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

CORE = "core"
"""The name under which the core registers its own emits, formats and commands."""

Row = TypeVar("Row", CollectorRow, CommandRow, EmitRow, FormatRow, RequirementRow, TargetRow, ViewRow)

_ROWS: tuple[tuple[str, str, type[Any], str], ...] = (
    ("omn_collectors", "collectors", CollectorRow, "collector"),
    ("omn_requirements", "requirements", RequirementRow, "requirement class"),
    ("omn_targets", "targets", TargetRow, "target kind"),
    ("omn_stacks", "stacks", StackRow, "stack mode"),
    ("omn_emits", "emits", EmitRow, "emit"),
    ("omn_formats", "formats", FormatRow, "format"),
    ("omn_views", "views", ViewRow, "view"),
    ("omn_commands", "commands", CommandRow, "command"),
)


@attrs.define(repr=False)
class PluginRecord:
    """One installed plugin: where it came from, whether it loaded, and what it handed over.

    `state` is loaded, failed, disabled, clash or incompatible; `reason` says why it is not loaded whole.
    """

    name: str
    distribution: str | None
    version: str | None
    state: str = "loaded"
    reason: str | None = None
    module: ModuleType | None = None
    catalog_package: str | None = None
    rows: dict[str, list[Any]] = attrs.field(factory=dict)
    sources: list[str] = attrs.field(factory=list)
    backends: int = 0

    def fail(self, state: str, reason: str) -> None:
        """Record a reason, once. The first state stands, later reasons are added to it."""
        from omn_core.names import render_printable

        if self.state == "loaded":
            self.state = state
        reason = render_printable(" ".join(reason.split()))
        if self.reason is None:
            self.reason = reason
        elif reason not in self.reason.split("; "):
            self.reason = f"{self.reason}; {reason}"


@attrs.define(repr=False)
class Registry:
    """What this build can do: every row of every plugin, and the record of each plugin."""

    records: list[PluginRecord]
    manager: pluggy.PluginManager
    collectors: dict[tuple[str, str], CollectorRow] = attrs.field(factory=dict)
    requirements: dict[str, RequirementRow] = attrs.field(factory=dict)
    targets: dict[str, TargetRow] = attrs.field(factory=dict)
    stacks: dict[str, StackRow] = attrs.field(factory=dict)
    emits: dict[str, EmitRow] = attrs.field(factory=dict)
    formats: dict[str, FormatRow] = attrs.field(factory=dict)
    views: dict[str, ViewRow] = attrs.field(factory=dict)
    commands: dict[str, CommandRow] = attrs.field(factory=dict)

    def load(self, reference: str) -> Any:
        """Import what a row names (`module:object`). Raises ImportError or AttributeError as Python does."""
        return load_reference(reference)

    def versions(self) -> dict[str, str]:
        """Every loaded distribution with its version, sorted by name."""
        found = {
            record.distribution: record.version or "unknown"
            for record in self.records
            if record.distribution is not None and record.state in ("loaded", "clash")
        }
        return dict(sorted(found.items()))

    def observers(self) -> list[tuple[PluginRecord, Any]]:
        """Every plugin's `omn_run_event`, with its record."""
        return list(_implementations(self.manager, "omn_run_event", self.records))


def discover(shipped: Iterable[str] | None = None) -> Registry:
    """Find, load and register every installed plugin.

    `shipped` names the distributions that win a clash; None reads the list in the core's catalog data, and only when
    two plugins do clash.
    """
    manager = pluggy.PluginManager("omn")
    manager.add_hookspecs(hookspecs)
    records = [PluginRecord(CORE, "omn", __version__, module=importlib.import_module("omn_core.builtin"))]
    records += _load_records()
    for record in records:
        if record.module is not None and record.state == "loaded":
            _register(manager, record)
    registry = Registry(records, manager)
    _collect_rows(registry, shipped)
    return registry


def _load_records() -> list[PluginRecord]:
    disabled = set(filter(None, os.environ.get("OMN_DISABLE_PLUGINS", "").split(",")))
    records = []
    with contextlib.redirect_stdout(sys.stderr):  # what a module prints as it is imported is no part of the answer
        for declared in find_declared(hookspecs.GROUP):
            record = PluginRecord(declared.name, declared.distribution, declared.version)
            records.append(record)
            if record.name in disabled:
                record.fail("disabled", "named in OMN_DISABLE_PLUGINS")
            else:
                _import_module(record, declared.module)
    return sorted(records, key=lambda record: (record.name, record.distribution or ""))


def _import_module(record: PluginRecord, name: str) -> None:
    try:
        record.module = load_reference(name)
    except PLUGIN_FAULTS as error:  # a guarded plugin call: loading a plugin runs its code
        record.fail("failed", f"importing {name} raised {type(error).__name__}: {error}")
    else:
        _check_contract(record)


def load_reference(reference: str) -> Any:
    """Import what a row or an entry point names (`module:object`). Raises ImportError or AttributeError."""
    module, _, name = reference.partition(":")
    loaded: Any = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        loaded = getattr(loaded, part)
    return loaded


def _check_contract(record: PluginRecord) -> None:
    stated = getattr(record.module, "OMN_CONTRACT", None)
    if not isinstance(stated, str) or not stated.partition(".")[0].isdigit():
        record.fail("incompatible", f"it states no contract version (OMN_CONTRACT = {stated!r})")
    elif stated.partition(".")[0] != str(hookspecs.CONTRACT[0]):
        ours = ".".join(map(str, hookspecs.CONTRACT))
        record.fail("incompatible", f"it was built for contract {stated}, and this omn has {ours}")


def _register(manager: pluggy.PluginManager, record: PluginRecord) -> None:
    try:
        manager.register(record.module, f"{record.distribution}:{record.name}")
    except (pluggy.PluginValidationError, ValueError) as error:
        record.fail("failed", f"registering it raised {error}")


def _implementations(
    manager: pluggy.PluginManager, hook: str, records: list[PluginRecord]
) -> Iterable[tuple[PluginRecord, Any]]:
    by_module = {record.module: record for record in records if record.module is not None}
    found = [(by_module[impl.plugin], impl.function) for impl in getattr(manager.hook, hook).get_hookimpls()]
    return sorted(found, key=lambda pair: (pair[0].name != CORE, pair[0].name, pair[0].distribution or ""))


def _call(record: PluginRecord, hook: str, function: Any) -> Any:
    """Call one plugin's hook in its guard: what it raises is its record's reason, and it hands over nothing."""
    try:
        return function()
    except PLUGIN_FAULTS as error:  # a guarded plugin call: one of the three places for a broad except
        record.fail("failed", f"{hook} raised {type(error).__name__}: {error}")
        return None


def _collect_rows(registry: Registry, shipped: Iterable[str] | None) -> None:
    for record, function in _implementations(registry.manager, "omn_catalog", registry.records):
        package = _call(record, "omn_catalog", function)
        if package is None or (isinstance(package, str) and package):
            record.catalog_package = package
        else:
            record.fail("failed", f"omn_catalog returned {package!r}, not a package's name")
    for hook, group, kind, noun in _ROWS:
        claims: dict[Any, list[tuple[PluginRecord, Any]]] = {}
        for record, function in _implementations(registry.manager, hook, registry.records):
            rows = _check_rows(record, hook, _call(record, hook, function), kind)
            record.rows[group] = rows
            for row in rows:
                claims.setdefault(_identity(row), []).append((record, row))
        table: dict[Any, Any] = getattr(registry, group)
        for identity, claimants in claims.items():
            winner = settle_clash(f"{noun} {'/'.join(_parts(claimants[0][1]))}", claimants, shipped)
            if winner is not None:
                table[identity] = winner


def _check_rows(record: PluginRecord, hook: str, rows: Any, kind: type[Any]) -> list[Any]:
    if rows is None:
        return []
    wrong = [row for row in rows if not isinstance(row, kind)] if isinstance(rows, list | tuple) else [rows]
    if wrong:
        record.fail("failed", f"{hook} returned {wrong[0]!r} where {kind.__name__} rows belong")
        return []
    unnamed = [row for row in rows if not all(isinstance(part, str) for part in _parts(row))]
    if unnamed:
        record.fail("failed", f"{hook} returned {unnamed[0]!r}, whose name is no text")
        return []
    return list(rows)


def _parts(row: Any) -> tuple[Any, ...]:
    identity = _identity(row)
    return identity if isinstance(identity, tuple) else (identity,)


def _identity(row: Any) -> Any:
    if isinstance(row, CollectorRow):
        return row.source, row.backend
    return row.kind if isinstance(row, RequirementRow | TargetRow) else row.name


def settle_clash(what: str, claimants: list[tuple[PluginRecord, Any]], shipped: Iterable[str] | None) -> Any:
    """Return the claim that stands, None when two strangers claim the same thing; name both sides either way."""
    if len(claimants) == 1:
        return claimants[0][1]
    ours = set(read_shipped() if shipped is None else shipped)
    owners = [(record, claim) for record, claim in claimants if record.distribution in ours]
    who = " and ".join(sorted(f"{record.name} ({record.distribution})" for record, _ in claimants))
    for record, _ in claimants:
        if len(owners) != 1 or record is not owners[0][0]:
            verdict = "neither is used" if len(owners) != 1 else f"{owners[0][0].name}'s is used"
            record.fail("clash", f"{what} is claimed by {who}; {verdict}")
    return owners[0][1] if len(owners) == 1 else None


def read_shipped() -> tuple[str, ...]:
    """Return the distributions that come with omn, from the core's data: they win a clash."""
    from omn_core.catalog.known import read_known

    return ("omn", *read_known().distributions)


def describe(record: PluginRecord, registry: Registry) -> Mapping[str, Any]:
    """Return a record in the words of `omn plugins --format json`."""

    def names(group: str, attribute: str) -> list[str]:
        table = getattr(registry, group)
        return sorted(getattr(row, attribute) for row in record.rows.get(group, []) if table.get(_identity(row)) is row)

    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "state": record.state,
        "reason": record.reason,
        "sources": len(record.sources),
        "backends": record.backends,
        "requirement_classes": names("requirements", "kind"),
        "emits": names("emits", "name"),
        "formats": names("formats", "name"),
        "views": names("views", "name"),
        "commands": names("commands", "name"),
    }
