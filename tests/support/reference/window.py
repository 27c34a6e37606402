"""omn's window, held open around whatever a pair does: it opens when omn says so and closes when it is told."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from omn_core.testing.fixtures import Command

TIMEOUT_S = 120.0
_HOLD = 'echo > "$0"; read -r _ < "$1"'
"""The program that omn launches: its start is the window's opening, its end the close."""


@attrs.define
class OmnEndedError(Exception):
    """omn ended with something else than a document: its exit code, and what it said."""

    code: int
    said: str

    @property
    def is_machines(self) -> bool:
        """Whether it refused because this machine cannot serve the request, and ran nothing."""
        return self.code == 1 and self.said.rstrip().endswith("refused the request; nothing ran")


class Window:
    """A run of omn whose window is open inside the context. `document` is there after `close`."""

    def __init__(self, omn: Command, folder: Path, session: Mapping[str, Any]) -> None:
        self._ends = [folder / "opened", folder / "closed"]
        for path in self._ends:
            os.mkfifo(path)
        self._opened, self._closed = (os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in self._ends)
        self._written = folder / "document.json"
        file = folder / "session.json"
        file.write_text(json.dumps(session))
        with open(self._written, "wb") as output:
            self._child = subprocess.Popen(
                [*omn.argv, "-f", str(file), "--format", "json"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, env=omn.environment(),
            )  # fmt: skip

    @staticmethod
    def launch(folder: Path) -> list[str]:
        """Return the program whose life is the window, for the session."""
        return ["sh", "-c", _HOLD, str(folder / "opened"), str(folder / "closed")]

    def __enter__(self) -> Self:
        poll = select.poll()
        poll.register(self._opened, select.POLLIN)
        handle = os.pidfd_open(self._child.pid)
        poll.register(handle, select.POLLIN)
        try:
            ready = [descriptor for descriptor, _ in poll.poll(TIMEOUT_S * 1000)]
        finally:
            os.close(handle)
        if self._opened not in ready:
            self._end()
            raise self._explain()
        return self

    def close(self) -> dict[str, Any]:
        """Let the window close, and return the document. Raises OmnEndedError where omn failed."""
        os.write(self._closed, b"\n")
        _, said = self._child.communicate(timeout=TIMEOUT_S)
        if self._child.returncode != 0:
            raise OmnEndedError(self._child.returncode, said.decode("utf-8", "replace"))
        document: dict[str, Any] = json.loads(self._written.read_bytes())
        return document

    def _explain(self) -> OmnEndedError:
        _, said = self._child.communicate(timeout=TIMEOUT_S)
        return OmnEndedError(self._child.returncode, said.decode("utf-8", "replace"))

    def _end(self) -> None:
        if self._child.poll() is None:
            self._child.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            os.write(self._closed, b"\n")
            self._child.communicate(timeout=TIMEOUT_S)
        os.close(self._opened)
        os.close(self._closed)
