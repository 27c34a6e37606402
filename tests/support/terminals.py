"""A program on a terminal of its own: what it wrote there, and what a person would see of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence

_CONTROL = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")


class Terminal:
    """The master side of a terminal, and the program on it. `written` is all that came so far."""

    def __init__(self, master: int, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.written = b""
        self._master = master

    def read_until(self, wanted: bytes, timeout_s: float = 60.0) -> bytes:
        """Read until something was written. Raises AssertionError where the program ends, or time runs out, before."""
        deadline = time.monotonic() + timeout_s
        while wanted not in self.written:
            left_s = deadline - time.monotonic()
            assert left_s > 0, self.written
            assert self._read(left_s) or wanted in self.written, self.written
        return self.written

    def read_to_end(self) -> bytes:
        """Read until nobody holds the terminal any more."""
        while self._read(60.0):
            pass
        self.child.wait()
        return self.written

    def type(self, text: str) -> None:
        """Type."""
        os.write(self._master, text.encode())

    def lines(self) -> list[str]:
        """Return the lines as they stand on the screen: a carriage return goes back and is written over."""
        shown = []
        for line in _CONTROL.sub(b"", self.written).split(b"\n"):
            cells: list[str] = []
            for part in line.decode("utf-8", "replace").rstrip("\r").split("\r"):
                cells[: len(part)] = list(part)
            shown.append("".join(cells).rstrip())
        return shown

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        with contextlib.suppress(OSError):  # EIO: the last one that held it is gone
            found = os.read(self._master, 65536)
            self.written += found
            return bool(found)
        return False


@contextlib.contextmanager
def on_terminal(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    streams: Sequence[str] = ("stdin", "stdout", "stderr"),
    columns: int = 80,
    rows: int = 24,
    cwd: str | os.PathLike[str] | None = None,
) -> Iterator[Terminal]:
    """Run a program whose named streams are a terminal, the controlling one of its session; the others go nowhere."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    given = {name: slave if name in streams else subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
    argv = ["setsid", "--ctty", *argv] if "stdin" in streams else argv
    with subprocess.Popen(argv, env=dict(environment), cwd=cwd, **given) as child:  # type: ignore[call-overload]
        os.close(slave)
        try:
            yield Terminal(master, child)
        finally:
            child.kill()
            os.close(master)
