"""Which files a program will map, told before it runs: itself, its loader, and the libraries that this loads."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator, Mapping

from omn_kernel.elf.image import PT_INTERP, Image, read_image
from omn_kernel.elf.needed import read_needed
from omn_kernel.elf.source import ElfError, File

_MOST_SCRIPTS = 4
_MOST_PATH_BYTES = 4096
_MOST_FILES = 1024
_MOST_INCLUDES = 4
_CONFIGURATION = "/etc/ld.so.conf"
_TRIPLET = f"{os.uname().machine}-linux-gnu"
_SYSTEM = (f"/lib/{_TRIPLET}", f"/usr/lib/{_TRIPLET}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
"""Where loaders look in the end; those of Debian's in folders named after the machine first."""


def find_program(name: str) -> str | None:
    """Find the file that execve(2) runs for a name, as omn's launcher finds it; None where there is none."""
    return shutil.which(name)


def iter_mapped_files(path: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the program at a path (of a script, what runs it), its loader, and the libraries that this will load.

    They are looked for as ld.so(8) does, but for its cache: in LD_PRELOAD and LD_LIBRARY_PATH, in folders that an
    object names itself, beside the loader, where a system keeps its own, and in the folders of ld.so.conf and of the
    loader. What is not found there, or is loaded later, is known when a program maps it. What cannot be read is left
    out.
    """
    for _ in range(_MOST_SCRIPTS):
        try:
            with File(path) as file:
                runner = _find_script_runner(file)
                loader = None if runner else _find_loader(read_image(file))
        except (OSError, ElfError):
            return
        if runner is None:
            yield from _iter_objects(path, loader, environment)
            return
        path = runner


def _find_script_runner(file: File) -> str | None:
    first = file.read(0, min(file.size, _MOST_PATH_BYTES)).partition(b"\n")[0]
    words = first[2:].split()
    return os.fsdecode(words[0]) if first.startswith(b"#!") and words else None


def _find_loader(image: Image) -> str | None:
    for segment in image.segments:
        if segment.kind == PT_INTERP:
            return os.fsdecode(
                image.source.read(segment.offset, min(segment.file_size, _MOST_PATH_BYTES)).partition(b"\0")[0]
            )
    return None


def _iter_objects(path: str, loader: str | None, environment: Mapping[str, str]) -> Iterator[str]:
    yield path
    if loader is None:
        return
    yield loader
    given = [folder for folder in environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":") if folder]
    system = [os.path.dirname(os.path.realpath(loader)), *_list_configured(_CONFIGURATION), *_SYSTEM]
    preloaded = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    waiting = [path, *(found for name in preloaded if (found := _find(name, [*given, *system])))]
    yield from waiting[1:]
    seen = {os.path.realpath(one) for one in (*waiting, loader)}
    while waiting and len(seen) < _MOST_FILES:
        for found in _list_needed(waiting.pop(0), given, system):
            if os.path.realpath(found) not in seen:
                seen.add(os.path.realpath(found))
                waiting.append(found)
                yield found


def _list_needed(path: str, given: list[str], system: list[str]) -> list[str]:
    """List where the libraries stand that an object needs, those that are not found left out."""
    try:
        with File(path) as file:
            needed = read_needed(read_image(file))
    except (OSError, ElfError):
        return []
    origin = os.path.dirname(os.path.realpath(path))
    own = [folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for folder in needed.folders]
    found = [_find(name, [*given, *own, *system]) for name in needed.names]
    return [one for one in found if one is not None]


def _list_configured(path: str, depth: int = 0) -> list[str]:
    """List the folders that a file of ld.so.conf(5)'s kind names, and those of the files that it includes."""
    try:
        with open(path, errors="surrogateescape") as file:
            lines = [line.partition("#")[0].strip() for line in file]
    except OSError:
        return []
    folders = []
    for line in filter(None, lines):
        word, _, pattern = line.partition(" ")
        if word != "include":
            folders.append(line)
        elif depth < _MOST_INCLUDES:
            included = sorted(glob.glob(os.path.join(os.path.dirname(path), pattern.strip())))
            folders += [folder for one in included for folder in _list_configured(one, depth + 1)]
    return folders


def _find(name: str, folders: list[str]) -> str | None:
    if "/" in name:
        return name
    return next((path for folder in folders if os.path.exists(path := f"{folder}/{name}")), None)
