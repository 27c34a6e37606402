"""Which plugins the installed distributions declare: found by stevedore, and kept until what it looked through changes.

stevedore, and what it reads metadata with, take as long to be imported as half of the core. What they found is kept
under a digest of every folder that Python imports from, and of every distribution's metadata in them, as `stat` sees
them: whatever installs, replaces or removes a distribution changes one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from omn_core import __version__
from omn_core.cache import compute_fingerprint, read_cached, write_cached

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_METADATA = ("entry_points.txt", "METADATA", "PKG-INFO")


@attrs.frozen(eq=False, repr=False)
class Declared:
    """An entry point: its name, the module it names, and the name and version of the distribution that declares it."""

    name: str
    module: str
    distribution: str | None
    version: str | None


def find_declared(group: str) -> tuple[Declared, ...]:
    """Return every entry point of a group."""
    name = f"plugins-{_fingerprint(group)}.json"
    found = _from_cache(name)
    if found is None:
        found = _ask_stevedore(group)
        if name == f"plugins-{_fingerprint(group)}.json":  # else something was installed meanwhile
            write_cached(name, json.dumps([attrs.astuple(one) for one in found]).encode())
    return found


def _fingerprint(group: str) -> str:
    finders = [f"{type(finder).__module__}.{getattr(finder, '__qualname__', type(finder))}" for finder in sys.meta_path]
    return compute_fingerprint([__version__, group, sys.prefix, finders, list(_iter_seen())])


def _iter_seen() -> Iterator[tuple[str, int, int, int]]:
    """Yield what is looked through, in Python's order: its path, its inode, its size and when it was changed."""
    for folder in sys.path:
        yield from _iter_stat(folder or ".")
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue  # a zip file, or nothing
        for name in names:
            path = os.path.join(folder, name)
            yield from _iter_stat(path)
            for part in _METADATA:
                yield from _iter_stat(os.path.join(path, part))


def _iter_stat(path: str) -> Iterator[tuple[str, int, int, int]]:
    try:
        found = os.stat(path)
    except OSError:
        return
    yield path, found.st_ino, found.st_size, found.st_mtime_ns


def _from_cache(name: str) -> tuple[Declared, ...] | None:
    content = read_cached(name)
    try:
        return None if content is None else tuple(Declared(*row) for row in json.loads(content))
    except (ValueError, TypeError):
        return None  # a cache that does not read back whole is one nobody wrote


def _ask_stevedore(group: str) -> tuple[Declared, ...]:
    from importlib.metadata import entry_points

    distributions = {(entry.name, entry.value): entry.dist for entry in entry_points(group=group)}
    found = {(entry.name, entry.value) for entry in _list_entry_points(group)}
    return tuple(
        Declared(*both, *((None, None) if dist is None else _read_name_and_version(dist)))
        for both, dist in distributions.items()
        if both in found
    )


def _list_entry_points(group: str) -> list[EntryPoint]:
    """List what stevedore finds, its own cache nowhere."""
    previous = os.environ.get("XDG_CACHE_HOME")
    # stevedore reads this variable once, when it is imported; a file in place of a folder keeps it from writing.
    os.environ["XDG_CACHE_HOME"] = os.devnull
    try:
        from stevedore.extension import ExtensionManager
    finally:
        if previous is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = previous

    class Finder(ExtensionManager[object]):
        """A manager that finds and imports nothing, and shares nothing with another."""

        ENTRY_POINT_CACHE = {}  # noqa: RUF012  # stevedore's own name; one dict a session instead of one a process

        def _load_one_plugin(self, *_: object) -> None:
            return None

    entries: list[EntryPoint] = Finder(group).list_entry_points()
    return entries


def _read_name_and_version(distribution: Distribution) -> tuple[str | None, str | None]:
    """Read what a distribution's metadata begins with, None for what it does not say.

    `Distribution.name` and `.version` parse it whole each, down to the README that ends it.
    """
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    fields = dict(line.partition(": ")[::2] for line in text.partition("\n\n")[0].splitlines())
    return fields.get("Name"), fields.get("Version")
