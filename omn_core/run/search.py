"""Finding the file a program's name means, as a shell would, before anything is launched."""

from __future__ import annotations

import errno
import os
import stat

from omn_core.errors import MachineRefused


def get_program(name: str) -> str:
    """Return the path to execute for a program's name.

    A name with a slash is a path. Any other is looked for in PATH (an empty part is the current folder; no PATH is
    /bin:/usr/bin): the first executable file wins, and a file that may not be executed is passed over but remembered.
    Raises MachineRefused, with a sentence of its own for each way of not finding one.
    """
    if "/" in name:
        _refuse_unless_executable(name)
        return name
    passed_over: str | None = None
    for folder in os.environ.get("PATH", "/bin:/usr/bin").split(os.pathsep):
        path = os.path.join(folder or ".", name)
        if _is_executable(path):
            return path
        if passed_over is None and os.path.isfile(path):
            passed_over = path
    if passed_over is not None:
        _refuse_unless_executable(passed_over)
    raise MachineRefused(f"the program {name!r} is in no folder of PATH", "write its path, or correct its name")


def explain_refusal(path: str, number: int) -> MachineRefused:
    """Return the refusal for an execve that the kernel answered with an error number."""
    interpreter = _find_interpreter(path) if number == errno.ENOENT else None
    if number == errno.ENOENT and os.path.exists(path):
        named = "the interpreter it names" if interpreter is None else f"its interpreter {interpreter!r}"
        return MachineRefused(f"the program {path!r} cannot run: {named} does not exist", "install the interpreter")
    if number == errno.ENOEXEC:
        return MachineRefused(
            f"the file {path!r} is no program that this kernel can execute: it has no format it knows and no '#!' line",
            "name its interpreter in front of it (a shell script: `sh FILE`)",
        )
    if number == errno.EACCES:
        return MachineRefused(
            f"executing {path!r} was refused (EACCES): the file, its interpreter or its mount forbids it",
            "look at their modes, and for noexec at the mount",
        )
    return MachineRefused(f"the program {path!r} could not be executed: {os.strerror(number)}")


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK, effective_ids=True)


def _refuse_unless_executable(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except PermissionError as error:
        raise MachineRefused(f"the program {path!r} cannot be reached: a folder on the way forbids it") from error
    except OSError as error:
        raise MachineRefused(f"there is no program {path!r}: {error.strerror}", "correct its path") from error
    if stat.S_ISDIR(mode):
        raise MachineRefused(f"the program {path!r} is a folder", "name a file in it")
    if not _is_executable(path):
        raise MachineRefused(f"the file {path!r} is not executable for this user", f"chmod +x {path}")


def _find_interpreter(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            line = file.readline(256)
    except OSError:
        return None
    words = line[2:].split()
    return os.fsdecode(words[0]) if line.startswith(b"#!") and words else None
