"""Libraries that programs are started with: where they are, and which programs would not load one."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from omn_core.api import MachineRefused
from omn_kernel import native
from omn_kernel.elf.functions import find_functions
from omn_kernel.elf.image import Image, read_image
from omn_kernel.elf.source import ElfError, File
from omn_kernel.libraries import find_program, iter_mapped_files
from omn_kernel.privileges import find_file_grant

PRELOAD = b"LD_PRELOAD"


def get_library(name: str) -> str:
    """Return the file of a library that is built with this package."""
    return str(Path(native.__file__).with_name(f"lib{name}.so"))


def put_first(library: str, environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the variable that has a loader load a library before those that were asked for already."""
    given = environment.get(PRELOAD)
    return {PRELOAD: os.fsencode(library) + (b":" + given if given else b"")}


def refuse_reader(pid: int, remedy: str) -> None:
    """Raise MachineRefused where a process that omn holds could not open what omn has open, with what to do then.

    The kernel lets nobody look into a process that may do more than oneself.
    """
    user = os.geteuid()
    is_hidden = os.stat("/proc/self/fd").st_uid != user
    permitted, kept = (_read_capabilities(one, name) for one, name in (("self", "CapPrm"), (pid, "CapAmb")))
    if is_hidden or (user != 0 and permitted & ~kept):
        raise MachineRefused("the program may not open the memory of an omn that has more capabilities than it", remedy)


def _read_capabilities(pid: int | str, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")), 16)


def refuse_program(name: str, environment: Mapping[str, str], function: str, remedy: str) -> None:
    """Raise MachineRefused where a program would not load a library, or not call its function, with what to do then.

    A program that no file can be found for, or that cannot be read, is for whoever starts it to refuse.
    """
    found = find_program(name)
    files = [] if found is None else list(islice(iter_mapped_files(found, environment), 2))
    if not files:
        return
    path = files[0]
    try:
        with File(path) as file:
            reason = _find_obstacle(path, read_image(file), function) if len(files) > 1 else _STATIC
    except (OSError, ElfError):
        return
    if reason is not None:
        raise MachineRefused(f"{path!r} {reason}", remedy)


def _gains_privileges(path: str) -> bool:
    found, user = os.stat(path), os.geteuid()
    becomes_user = found.st_mode & stat.S_ISUID and found.st_uid != user
    becomes_group = found.st_mode & stat.S_ISGID and found.st_gid != os.getegid()
    return bool(becomes_user or becomes_group or (user != 0 and find_file_grant(path) is not None))


_STATIC = "is linked statically: no loader is there that would load a library into it"


def _find_obstacle(path: str, image: Image, function: str) -> str | None:
    with File(get_library("omn_heap")) as file:
        own = read_image(file)
    if (image.machine, image.is_64) != (own.machine, own.is_64):
        return "is a program of another architecture than omn's library"
    if _gains_privileges(path):
        return "runs with privileges of its own: its loader passes over what it is asked to load"
    if function in find_functions(image, {function}):
        return f"has a function {function} of its own, which stands before any that is loaded"
    return None
