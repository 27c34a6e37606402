"""What may stand where a person presses the completion key: sources, and the values of options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

import click
from click.shell_completion import CompletionItem

from omn_core.cli.app import Application, get_application
from omn_core.model.catalog import Entry

Named = Iterable[tuple[str, str]]
"""Words, each with what it means."""

FORCED = "force:"


def iter_candidates(what: str, context: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Return the words of a kind that go on from what was typed; none where the source is not known yet.

    A list with commas is gone on with after its last comma, an emit's attribute after its `@`. The source is looked for
    among the words that are being completed: click knows no parameter while an option waits for its value.
    """
    application = get_application(context)
    words = application.program or ()
    entry = application.catalog.entries.get(next((word for word in words if word in application.catalog.entries), ""))
    if what in _LISTS:
        given, comma, incomplete = incomplete.rpartition(",")
        taken = given.split(",")
        named = (pair for pair in _find(what, application, entry) if pair[0] not in taken)
        return _match(named, incomplete, given + comma)
    if what == "emits" and "@" in incomplete:
        head, at, incomplete = incomplete.partition("@")
        return _match(_of_fields(application, entry), incomplete, head + at)
    if what == "cgroups":
        return _match(_iter_cgroups(application.probes.sysroot, incomplete), incomplete, "")
    return _match(_find(what, application, entry), incomplete, "")


def _match(named: Named, incomplete: str, before: str) -> list[CompletionItem[str]]:
    return [CompletionItem(before + word, help=meaning) for word, meaning in named if word.startswith(incomplete)]


def _find(what: str, application: Application, entry: Entry | None) -> Named:
    of_source = _OF_SOURCE.get(what)
    if of_source is not None:
        return of_source(application, entry)
    return _OF_MACHINE[what](application)


def _of_sources(application: Application) -> Named:
    catalog = application.catalog
    families = [(name, f"the family's default: {name}.*") for name in catalog.defaults]
    return [*families, *((entry.id, entry.title) for entry in catalog.entries.values())]


def _of_words(application: Application) -> Named:
    families = [(name, f"every source of {name}") for name in application.catalog.families()]
    return [*families, *((entry.id, entry.title) for entry in application.catalog.entries.values())]


def _of_topics(application: Application) -> Named:
    return [*((row.name, row.meaning) for row in application.registry.commands.values()), *_of_words(application)]


def _of_modes(application: Application, entry: Entry | None) -> Named:
    return () if entry is None else [(mode, f"emits {', '.join(entry.emits[mode])}") for mode in entry.modes]


def _of_emits(application: Application, entry: Entry | None) -> Named:
    if entry is None:
        return ()
    words = application.program or ()
    asked = [word for option, word in pairwise(words) if option in ("-m", "--mode")]
    mode = asked[-1] if asked else entry.default.mode
    modes = (mode,) if mode in entry.modes else entry.modes
    names = dict.fromkeys(name for each in modes for name in entry.emits[each])
    rows = application.registry.emits
    return [(name, rows[name].meaning if name in rows else "") for name in names]


def _of_keys(application: Application, entry: Entry | None) -> Named:
    meanings = application.catalog.vocabulary.keys
    return () if entry is None else [(key, meanings.get(key, "")) for key in entry.keys]


def _of_fields(application: Application, entry: Entry | None) -> Named:
    if entry is None:
        return ()
    return [(name, entry.attributes.get(name, "a key")) for name in (*entry.filter_fields, "value", "kind")]


def _of_values(application: Application, entry: Entry | None) -> Named:
    return () if entry is None else [(name, unit) for name, unit in entry.attributes.items() if unit != "text"]


def _of_backends(application: Application, entry: Entry | None) -> Named:
    return () if entry is None else [(f"{FORCED}{one.id}", f"cost {one.cost}") for one in entry.chain]


def _of_formats(application: Application) -> Named:
    return [(row.name, row.meaning) for row in application.registry.formats.values()]


def _of_plain_formats(application: Application) -> Named:
    return [(row.name, row.meaning) for row in application.registry.formats.values() if row.carries_documents]


def _of_distributions(application: Application) -> Named:
    return [(one.distribution, one.name) for one in application.registry.records if one.distribution is not None]


def _of_bands(application: Application) -> Named:
    return (("low", "the cheapest"), ("med", ""), ("high", "the dearest"))


def _of_interfaces(application: Application) -> Named:
    return [(name, "interface") for name in _read_folder(application.probes.sysroot, "sys/class/net")]


def _of_devices(application: Application) -> Named:
    return [(name, "block device") for name in _read_folder(application.probes.sysroot, "sys/block")]


def _of_cpus(application: Application) -> Named:
    names = _read_folder(application.probes.sysroot, "sys/devices/system/cpu")
    return [(name[3:], "cpu") for name in names if name.startswith("cpu") and name[3:].isdigit()]


def _of_processes(application: Application) -> Named:
    for name in _read_folder(application.probes.sysroot, "proc"):
        if name.isdigit():
            yield name, _read_name(application.probes.sysroot, name)


def _read_name(sysroot: str, pid: str) -> str:
    try:
        with open(os.path.join(sysroot, "proc", pid, "comm"), errors="surrogateescape") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def _iter_cgroups(sysroot: str, incomplete: str) -> Iterator[tuple[str, str]]:
    """Iterate over the cgroups one level below what was typed, in every hierarchy that is mounted."""
    parent = incomplete.rpartition("/")[0]
    mount = "sys/fs/cgroup"
    is_single = os.path.exists(os.path.join(sysroot, mount, "cgroup.procs"))
    tops = [mount] if is_single else [os.path.join(mount, name) for name in _read_folder(sysroot, mount)]
    found = {name for top in tops for name in _read_folder(sysroot, f"{top}/{parent}", only_folders=True)}
    yield from ((f"{parent}/{name}", "cgroup") for name in sorted(found))


def _read_folder(sysroot: str, folder: str, *, only_folders: bool = False) -> list[str]:
    """Return what a folder holds, in order; nothing where it is not there or not to be read."""
    try:
        with os.scandir(os.path.join(sysroot, folder)) as items:
            names = [item.name for item in items if not only_folders or item.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))


_LISTS = frozenset({"keys", "processes", "cpus"})
_OF_SOURCE: Mapping[str, Callable[[Application, Entry | None], Named]] = {
    "modes": _of_modes,
    "emits": _of_emits,
    "keys": _of_keys,
    "fields": _of_fields,
    "values": _of_values,
    "backends": _of_backends,
}
_OF_MACHINE: Mapping[str, Callable[[Application], Named]] = {
    "sources": _of_sources,
    "words": _of_words,
    "topics": _of_topics,
    "formats": _of_formats,
    "plain formats": _of_plain_formats,
    "distributions": _of_distributions,
    "bands": _of_bands,
    "interfaces": _of_interfaces,
    "devices": _of_devices,
    "cpus": _of_cpus,
    "processes": _of_processes,
}
