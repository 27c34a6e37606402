"""The ways to walk a stack: a chain of the core's own, or of a catalog folder, the core's kept as it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from omn_core import __version__
from omn_core.cache import compute_fingerprint, read_cached, write_cached
from omn_core.catalog.package_files import DATA, get_package_folder
from omn_core.errors import CatalogError
from omn_core.model.probe import Need
from omn_core.model.rows import RequirementRow
from omn_core.model.walks import Walk

TABLE = "unwind.yaml"

Classes = Mapping[str, RequirementRow]


def load_walks(classes: Classes, folder: Path | None = None) -> tuple[Walk, ...]:
    """Return the ways to walk a stack, best first: those of a folder that lists its own, else the core's.

    Raises CatalogError, with file and line, for a table that breaks a rule or cannot be read. The core's names classes
    of requirements of plugins that may not be installed: what those ask is unknown then. A folder's own may not.
    """
    if folder is not None and (folder / TABLE).exists():
        from omn_core.catalog.walks_table import parse_walks

        try:
            return parse_walks(str(folder / TABLE), (folder / TABLE).read_text(), classes, is_own=False)
        except (OSError, UnicodeDecodeError) as error:
            raise CatalogError(str(folder / TABLE), None, f"this table cannot be read: {error}") from error
    text = (get_package_folder(DATA) / TABLE).read_text()
    name = f"walks-{_fingerprint(text, classes)}.json"
    found = _from_cache(name)
    if found is None:
        from omn_core.catalog.walks_table import parse_walks

        found = parse_walks(TABLE, text, classes, is_own=True)
        write_cached(name, json.dumps([attrs.asdict(walk) for walk in found]).encode())
    return found


def _fingerprint(text: str, classes: Classes) -> str:
    """Identify the content and everything else that reading depends on."""
    known = sorted((row.kind, row.argument or "") for row in classes.values())
    return compute_fingerprint([__version__, text, known])


def _from_cache(name: str) -> tuple[Walk, ...] | None:
    content = read_cached(name)
    try:
        return None if content is None else tuple(_make_walk(plain) for plain in json.loads(content))
    except (ValueError, TypeError, LookupError, AttributeError):
        return None  # a cache that does not read back whole is one nobody wrote


def _make_walk(plain: dict[str, Any]) -> Walk:
    return Walk(**{**plain, "requires": tuple(Need(**need) for need in plain["requires"])})
