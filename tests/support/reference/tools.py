"""Running the other side: a tool to its end, or one that counts from one moment to another."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from reference.model import Tool, fill
from reference.refusal import CannotRunError, PairFailedError, find_refusal
from reference.window import TIMEOUT_S

_ATTACHED = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
"""What bpftrace says when all its probes are attached, where a variable of the same name asks for it."""
_ENVIRONMENT = {"LC_ALL": "C", "S_TIME_FORMAT": "ISO", "S_COLORS": "never", "COLUMNS": "512", _ATTACHED: "1"}
"""What every tool finds beside the environment there is: its words and numbers are the same everywhere."""


def run_tool(tool: Tool, words: Mapping[str, str]) -> str:
    """Run a tool to its end and return what it printed.

    Raises CannotRunError where it says that this machine or user may not, PairFailedError for another failure.
    """
    done = subprocess.run(
        make_argv(tool, words), stdin=subprocess.DEVNULL, capture_output=True, env=make_environment(tool),
        timeout=TIMEOUT_S, cwd=words["folder"],
    )  # fmt: skip
    check_ended(tool, done.returncode, done.stderr)
    return done.stdout.decode("utf-8", "replace")


def make_argv(tool: Tool, words: Mapping[str, str]) -> tuple[str, ...]:
    """Return a tool's command with the words put in."""
    return tuple(fill(part, words) for part in tool.command)


def make_environment(tool: Tool) -> dict[str, str]:
    """Return the environment a tool runs in."""
    return {**os.environ, **_ENVIRONMENT, **tool.environment}


def check_ended(tool: Tool, code: int, stderr: bytes) -> None:
    """Raise what a tool's exit code stands for, if it is not 0."""
    if code == 0:
        return
    said = stderr.decode("utf-8", "replace").strip()
    refusal = find_refusal(said)
    if refusal is not None:
        raise CannotRunError(f"{tool.title} refused: {refusal}")
    raise PairFailedError(f"{tool.title} ended with {code}: {said or 'it said nothing'}")


class Counting:
    """A perf that counts inside the context: it is told on a pipe when, and answers that it does (perf-stat(1)).

    Its command has the words `control` and `acknowledge`, and writes to `output`.
    """

    def __init__(self, tool: Tool, words: Mapping[str, str]) -> None:
        self._tool = tool
        folder = Path(words["folder"])
        paths = {name: str(folder / name) for name in ("control", "acknowledge")}
        for path in paths.values():
            os.mkfifo(path)
        self._control, self._acknowledge = (os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in paths.values())
        self._child = subprocess.Popen(
            make_argv(tool, {**words, **paths}), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=make_environment(tool),
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._tell("enable")
        return self

    def stop(self) -> None:
        """Let it count no more, and end it."""
        self._tell("disable")
        self._child.send_signal(signal.SIGINT)
        _, stderr = self._child.communicate(timeout=TIMEOUT_S)
        # perf ends by the signal it was ended with, or with 0, by its version.
        check_ended(self._tool, max(self._child.returncode, 0), stderr)

    def _tell(self, word: str) -> None:
        os.write(self._control, f"{word}\n".encode())
        poll = select.poll()
        poll.register(self._acknowledge, select.POLLIN)
        handle = os.pidfd_open(self._child.pid)
        poll.register(handle, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(TIMEOUT_S * 1000)]
        os.close(handle)
        if self._acknowledge not in ready:
            self._child.kill()
            _, stderr = self._child.communicate(timeout=TIMEOUT_S)
            check_ended(self._tool, abs(self._child.returncode) or 1, stderr)
        os.read(self._acknowledge, 64)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            self._child.kill()
            self._child.communicate(timeout=TIMEOUT_S)
        os.close(self._control)
        os.close(self._acknowledge)


class Tracing:
    """A bpftrace that traces inside the context: it says when its probes are attached, and is interrupted at the end.

    What it printed, its own words beside what it counted, is in `output` after `stop`.
    """

    def __init__(self, tool: Tool, words: Mapping[str, str]) -> None:
        self._tool = tool
        self._output = Path(words["output"])
        self._said: list[str] = []
        self._child = subprocess.Popen(
            make_argv(tool, words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=make_environment(tool), text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._said.append(line)
            if line.strip() == _ATTACHED:
                return self
        self._child.communicate(timeout=TIMEOUT_S)
        # It ended before it traced, which is a failure whatever its exit code.
        check_ended(self._tool, self._child.returncode or 1, "".join(self._said).encode())
        return self

    def stop(self) -> None:
        """Let it print what it counted."""
        self._child.send_signal(signal.SIGINT)
        try:
            said, _ = self._child.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise PairFailedError(f"{self._tool.title} did not end when it was interrupted") from error
        self._said.append(said)
        check_ended(self._tool, self._child.returncode, "".join(self._said).encode())
        self._output.write_text("".join(self._said))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            self._child.kill()
            self._child.communicate(timeout=TIMEOUT_S)


def watch(tool: Tool, words: Mapping[str, str]) -> Counting | Tracing:
    """Return what watches from one moment to another: a perf where the command has a control pipe, or a bpftrace."""
    return (Counting if any("{control}" in part for part in tool.command) else Tracing)(tool, words)
