"""Whether the native modules were built of the sources that stand beside them.

In a checkout they may be older: Python would find names of the kernel's headers missing that its own sources ask for,
and take it for the kernel's doing. Where they are installed without what builds them they came with their Python.
"""

from __future__ import annotations

import importlib
import os

from omn_core.api import NotCollected
from omn_kernel.native.sources import compute_stamp, list_sources

_FOLDER = os.path.dirname(__file__)
_PROJECT = os.path.dirname(os.path.dirname(_FOLDER))
_STUB, _LIBRARY = ".pyi", ".so"


def refuse_stale(folder: str = _FOLDER, project: str = _PROJECT) -> None:
    """Raise NotCollected where a module is missing in a checkout, or was built of other sources than these.

    Modules that are newer than every source are not looked into, which is nearly every start.
    """
    script = os.path.join(project, "build_native.py")
    if not os.path.exists(script):
        return
    paths = list_sources(folder, script)
    newest_ns = max(os.stat(path).st_mtime_ns for path in paths)
    built = _find_built(folder)
    older = [name for name, path in built.items() if path is None or os.stat(path).st_mtime_ns < newest_ns]
    if not older:
        return
    stamp = compute_stamp(paths)
    stale = [name for name in older if built[name] is None or _read_stamp(name) != stamp]
    if stale:
        raise NotCollected(
            f"the native modules of omn-kernel ({', '.join(stale)}) were built of other sources than those beside them",
            f"build them anew: pip install -e {project}",
        )


def _find_built(folder: str) -> dict[str, str | None]:
    """Find the file of each module that has a stub, None for one that is not built."""
    names = os.listdir(folder)
    libraries = {name.partition(".")[0]: os.path.join(folder, name) for name in names if name.endswith(_LIBRARY)}
    stubs = sorted(name.removesuffix(_STUB) for name in names if name.endswith(_STUB))
    return {stub: libraries.get(stub) for stub in stubs}


def _read_stamp(name: str) -> int | None:
    """Read the stamp of the sources that a module was built of; None where it is of before there was one."""
    return getattr(importlib.import_module(f"omn_kernel.native.{name}").lib, "OMN_SOURCES", None)
