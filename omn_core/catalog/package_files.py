"""Where a package's files lie."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

DATA = "omn_core.catalog_data"
"""The package that holds the shared data files."""


def get_package_folder(package: str) -> Path:
    """Return the folder of a package, which is imported for it.

    A package in an archive has none; importlib.resources, which reads one there, is a fiftieth of a start to import.
    Raises ImportError for a package that cannot be found, and what importing it raises.
    """
    for path in import_module(package).__path__:
        if os.path.isdir(path):
            return Path(path)
    raise ModuleNotFoundError(f"{package!r} lies in no folder", name=package)
