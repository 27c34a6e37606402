"""What a system call was asked and what it answered, as people read it."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from omn_kernel.syscalls import name_syscall
from omn_kernel.tracepoints import read_format

from omn_core.api import MachineRefused

_RESTARTS = {
    512: "ERESTARTSYS",
    513: "ERESTARTNOINTR",
    514: "ERESTARTNOHAND",
    515: "ENOIOCTLCMD",
    516: "ERESTART_RESTARTBLOCK",
}
"""Errors of <linux/errno.h> that no program sees: the kernel goes on with the call, or makes EINTR of them."""
_MOST_ERRORS = 4095
_COMPAT = "i386:"
_WORD, _HALF = 1 << 64, 1 << 32
_DECIMAL = 1 << 16


def name_error(result: int) -> str | None:
    """Name the error that a call returned, None for one that did not fail."""
    if not -_MOST_ERRORS <= result < 0:
        return None
    return errno.errorcode.get(-result) or _RESTARTS.get(-result) or str(-result)


def spell_number(value: int) -> str:
    """Spell an argument: small ones and what is below zero in 32 or 64 bits as numbers, others as addresses are."""
    for width in (_WORD, _HALF):
        if width - _MOST_ERRORS <= value < width:
            return str(value - width)
    return str(value) if value < _DECIMAL else hex(value)


def quote(content: bytes, *, is_whole: bool) -> str:
    """Quote a path, with three dots after one that is longer."""
    text = content.decode("utf-8", "backslashreplace").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"' if is_whole else f'"{text}"...'


class ArgumentNames:
    """What the arguments of calls are called, as tracefs describes them; `is_told` says whether it does."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, bool], Sequence[str] | None] = {}
        self.is_told = True

    def find(self, number: int, *, is_compat: bool) -> Sequence[str] | None:
        """Find the names of a call's arguments, None where nobody tells them."""
        key = number, is_compat
        if key not in self._names:
            self._names[key] = self._read(name_syscall(number, is_compat=is_compat).removeprefix(_COMPAT))
        return self._names[key]

    def _read(self, name: str) -> Sequence[str] | None:
        for known in (name, f"new{name}"):
            try:
                fields = read_format(f"syscalls/sys_enter_{known}")
            except MachineRefused:
                continue
            return [
                field for field in fields if not field.startswith("common_") and field not in ("nr", "__syscall_nr")
            ]
        self.is_told = False
        return None


def spell_arguments(values: Sequence[str], names: Sequence[str] | None) -> str:
    """Spell a call's arguments, each after its name; all six where nobody tells which it has."""
    if names is None:
        return ", ".join(values)
    return ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
