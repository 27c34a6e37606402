"""The three standard streams, in whatever state the caller left them: open, closed, full, or of another encoding."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from typing import TextIO

_NAMES = ("stdin", "stdout", "stderr")


def open_streams() -> None:
    """Give omn its three standard streams, those that were closed too.

    A closed one's number would go to the next file that omn opens, and what is said would land in that file. So it is
    taken by /dev/null, opened the other way round: reading or writing it fails with EBADF, as a closed one does, and a
    launched program finds it closed still. What standard output's encoding has no character for is escaped.
    """
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_WRONLY if number == 0 else os.O_RDONLY)
            setattr(sys, name, open(descriptor, "r" if number == 0 else "w"))  # noqa: SIM115  # open for omn's life
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def drop_stream(stream: TextIO) -> None:
    """Point a stream that failed at nothing, so that the interpreter's own flush at exit does not fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str) -> None:
    """Write lines to standard error, whatever does not print escaped. Nobody is left to tell where that fails."""
    from omn_core.names import render_printable

    try:
        print("\n".join(render_printable(line) for line in text.split("\n")), file=sys.stderr, flush=True)
    except OSError:
        drop_stream(sys.stderr)


def find_output_size() -> int | None:
    """Find how large the file is that standard output goes to, bytes; None where it is no regular file."""
    try:
        status = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
