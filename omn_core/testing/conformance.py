"""The conformance kit: does an installed plugin keep the contracts? Each line it breaks is named.

`omn plugins check DIST` prints what `check_distribution` returns; a plugin's own tests assert `report.passed`.
"""

from __future__ import annotations

from typing import Any

import attrs

from omn_core.errors import RequestError
from omn_core.model.catalog import Catalog
from omn_core.plugins import PluginRecord, Registry
from omn_core.testing.checks.catalog import check_catalog, check_readme, check_requirements, check_titles
from omn_core.testing.checks.emits import check_emits
from omn_core.testing.checks.imports import check_cost, check_public_names
from omn_core.testing.checks.plugin import check_contract, check_entry_point, check_hooks, check_load
from omn_core.testing.checks.rows import check_collectors, check_references, check_targets
from omn_core.testing.checks.subject import CheckFunction, Subject, normalise_name

CHECKS: tuple[tuple[str, str, CheckFunction], ...] = (
    ("load", "it loads, and claims nothing that another plugin claims", check_load),
    ("entry-point", "its entry point is named after its family and names its plugin module", check_entry_point),
    ("contract", "it states the version of the contracts it was written for", check_contract),
    ("cost", "importing its plugin module is cheap and pulls in no collector code", check_cost),
    ("public-names", "its code imports nothing of the core but omn_core.api", check_public_names),
    ("hooks", "every hook is a known one, marked, and returns rows of its kind", check_hooks),
    ("references", "everything its rows name can be imported", check_references),
    ("collectors", "its factories make collectors that have every call of their life", check_collectors),
    ("targets", "the kinds of target it binds are kinds there are", check_targets),
    ("catalog", "each backend is collected, or says why it is not", check_catalog),
    ("titles", "its titles are phrases of one style", check_titles),
    ("requirements", "every requirement it uses is answered, and its probes answer with a Probe", check_requirements),
    ("emits", "its emits compute and render, change nothing, and answer with plain values", check_emits),
    ("readme", "its README has a section for each source", check_readme),
)
"""Every check: its name, what it holds a plugin to, and what makes it."""


@attrs.frozen
class Check:
    """One check: what it holds a plugin to, and a line for each place where the plugin breaks it."""

    name: str
    meaning: str
    broken: tuple[str, ...]


@attrs.frozen
class Report:
    """What the kit found of one distribution: its plugins by name, and every check."""

    distribution: str
    version: str | None
    plugins: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is broken."""
        return not any(check.broken for check in self.checks)

    @property
    def broken(self) -> tuple[str, ...]:
        """Every broken line, its check's name first."""
        return tuple(f"{check.name}: {line}" for check in self.checks for line in check.broken)

    def render(self) -> list[str]:
        """Return the lines for a person: what was checked, a line for each check, one below for each broken line."""
        lines = [f"{self.distribution} {self.version or 'of unknown version'}: {', '.join(self.plugins)}"]
        for check in self.checks:
            lines.append(f"{'BROKEN' if check.broken else 'ok    '}  {check.name}: {check.meaning}")
            lines += [f"        {line}" for line in check.broken]
        return lines

    def to_plain(self) -> dict[str, Any]:
        """Return plain values that any format that carries documents can write."""
        return {
            "distribution": self.distribution,
            "version": self.version,
            "plugins": list(self.plugins),
            "passed": self.passed,
            "checks": [
                {"name": check.name, "meaning": check.meaning, "broken": list(check.broken)} for check in self.checks
            ],
        }


def check_distribution(name: str, registry: Registry, catalog: Catalog) -> Report:
    """Run every check on the plugins of one distribution. Raises RequestError where it has none."""
    records = [record for record in registry.records if _is_named(record, name)]
    if not records:
        known = sorted({record.distribution for record in registry.records if record.distribution})
        raise RequestError(f"no installed plugin comes from the distribution {name!r}", f"there are {', '.join(known)}")
    subjects = [Subject.of(record, registry, catalog) for record in records]
    checks = tuple(
        Check(name, meaning, tuple(line for subject in subjects for line in check(subject)))
        for name, meaning, check in CHECKS
    )
    first = records[0]
    return Report(first.distribution or name, first.version, tuple(record.name for record in records), checks)


def _is_named(record: PluginRecord, name: str) -> bool:
    return record.distribution is not None and normalise_name(record.distribution) == normalise_name(name)
