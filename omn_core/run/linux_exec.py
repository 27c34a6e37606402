"""One execve whose arguments lie ready, so that the program's own account holds next to nothing of omn's."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence

_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, use_errno=True)
_libc = ctypes.CDLL(None)


class Exec:
    """A prepared execve: made by the parent, called once by the child.

    `rehearse` takes the same way through the interpreter without a system call, so that the pages a forked child
    copies when it first writes them are copied before anything is measured.
    """

    def __init__(self, path: bytes, arguments: Sequence[bytes], environment: Mapping[bytes, bytes]) -> None:
        self._path = path
        self._arguments = _lay_out(arguments)
        self._environment = _lay_out([name + b"=" + value for name, value in environment.items()])
        self._addresses = ctypes.addressof(self._arguments), ctypes.addressof(self._environment)
        self._execute = _CALL(("execve", _libc))
        self._compare = _CALL(("strcmp", _libc))

    def rehearse(self) -> int:
        """Do everything but the execve. The number returned means nothing."""
        self._compare(self._path, *self._addresses)
        return ctypes.get_errno()

    def execute(self) -> int:
        """Become the program. Returns only where the kernel refused: its errno."""
        self._execute(self._path, *self._addresses)
        return ctypes.get_errno()


def _lay_out(texts: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def make_program_environment() -> dict[bytes, bytes]:
    """Return the environment a launched program gets: omn's own, less what omn's start put there.

    In the C locale Python sets LC_CTYPE before it runs anything (PEP 538); `OMN_PROGRAM_STDERR` is meant for omn.
    """
    environment = dict(os.environb)
    environment.pop(b"OMN_PROGRAM_STDERR", None)
    if environment.get(b"LC_CTYPE") in (b"C.UTF-8", b"C.utf8", b"UTF-8") and not _was_given(b"LC_CTYPE"):
        del environment[b"LC_CTYPE"]
    return environment


def _was_given(name: bytes) -> bool:
    """Tell whether this process was started with a variable (/proc/self/environ holds what it was given)."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return any(entry.startswith(name + b"=") for entry in file.read().split(b"\0"))
    except OSError:
        return True
