"""An extension of Pi's own events: omn's file that Pi loads for this launch alone, and the socket that it speaks to."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from omn_agent.files import write_private
from omn_agent.harness import Harness
from omn_agent.hook.client import EXTENSION
from omn_agent.importing.fields import find_count, find_nanoseconds, find_text, get_object
from omn_agent.recorder.channels import Channels, bind_in_folder
from omn_agent.recorder.event import HarnessEvent, Launch, Preparation
from omn_agent.recorder.hook_file import CONTENT_VARIABLE, FOLDER_VARIABLE

SILENT = "pi's extension told nothing (a version that loads none): tools last from line to line"
RESTAMPED = "pi runs where no clock of this machine's is read: what its extension told is stamped as it arrived"
_COMMANDS = frozenset({"install", "remove", "uninstall", "update", "list", "config", "auth", "mcp"})
"""What Pi does instead of a session, where it is its first argument."""
_SESSION_VARIABLE = "OMN_AGENT_SESSION"
"""The session that a process comes from, which the extension sets for whatever its own starts."""
_STAND_IN = """#!/bin/sh
case "$1" in
"" | -* | *[!a-z-]*) exec {program} -e {extension} "$@" ;;
esac
exec {program} "$@"
"""
"""Pi with the extension. One bare word may be a command of Pi's, before which no option may stand."""
_BACKLOG = 64
_CHUNK = 1 << 16
_LONGEST_LINE = 16 << 20


@attrs.define
class LineReader:
    """Whole lines of what comes in pieces. One that is longer than `longest` is passed over, and counted once."""

    longest: int = _LONGEST_LINE
    too_long: int = 0
    _begun: bytearray = attrs.field(factory=bytearray)
    _is_passing: bool = False

    def feed(self, content: bytes) -> Iterator[bytes]:
        """Yield the lines that are whole now."""
        *ends, rest = content.split(b"\n")
        for end in ends:
            line = bytes(self._begun) + end
            self._begun.clear()
            if not self._is_passing:
                yield line
            self._is_passing = False
        if not self._is_passing:
            self._begun += rest
        if len(self._begun) > self.longest:
            self.too_long += 1
            self._is_passing = True
            self._begun.clear()


@attrs.define
class ExtensionSource:
    """The recorder's end of Pi's extension. Each session speaks over a connection of its own."""

    harness: Harness
    _channels: Channels[LineReader] = attrs.field(factory=lambda: Channels("extension", LineReader, _CHUNK))
    _opened_ns: int = 0
    _received: int = 0
    _restamped: int = 0
    _dropped: dict[tuple[int | None, str | None], int] = attrs.field(factory=dict)

    def prepare(self, launch: Launch) -> Preparation:
        """Listen, and let Pi load the extension."""
        if launch.argv[1:2] and launch.argv[1] in _COMMANDS:
            return Preparation(degradations=(f"pi has no session with {launch.argv[1]!r}",))
        (launch.folder / "spool").mkdir(
            mode=0o700
        )  # where the extension counts what a recorder that is gone does not take
        self._opened_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._channels.listen(bind_in_folder(launch.folder, "events", socket.SOCK_STREAM), _BACKLOG)
        told = {FOLDER_VARIABLE: str(launch.folder), CONTENT_VARIABLE: "on" if launch.has_content else "off"}
        told |= {_SESSION_VARIABLE: "", **_stand_in(launch)}
        return Preparation(environment=told, arguments=("-e", str(EXTENSION)))

    def fileno(self) -> int:
        """Return the epoll that the socket and its connections are in."""
        return self._channels.fileno()

    def receive(self) -> Iterator[HarnessEvent]:
        """Yield what arrived."""
        for channel, content in self._channels.receive():
            before = channel.state.too_long
            for line in channel.state.feed(content):
                event = self._parse(line)
                if event is None:
                    self._channels.lose("extension_malformed")
                else:
                    self._received += 1
                    yield event
            if channel.state.too_long > before:
                self._channels.lose("extension_too_long")

    def count_losses(self) -> Mapping[str, int]:
        """Return what was lost: lines that were no JSON or too long, and what extensions did not send."""
        dropped = sum(self._dropped.values())
        return {**self._channels.losses, **({"extension_dropped": dropped} if dropped else {})}

    def list_degradations(self) -> Sequence[str]:
        """Say that nothing was told, or on no clock that is known."""
        if self._channels.is_listening and not self._received:
            return (SILENT,)
        return (RESTAMPED,) if self._restamped else ()

    def close(self) -> None:
        """Close the socket and its connections."""
        self._channels.close()

    def _parse(self, line: bytes) -> HarnessEvent | None:
        """Return what a line tells. A stamp of before the launch is of another clock: Bun counts from its start."""
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            return None
        stamp_ns, name = find_nanoseconds(told, "stamp_ns"), find_text(told, "event")
        if stamp_ns is None or name is None or find_text(told, "harness") != self.harness.value:
            return None
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        if not self._opened_ns <= stamp_ns <= now_ns:
            self._restamped += 1
            stamp_ns = now_ns
        session_id, pid = find_text(told, "session_id"), find_count(told, "pid")
        given = get_object(told, "input")
        dropped = find_count(given, "dropped")
        if dropped is not None:
            self._dropped[pid, session_id] = dropped
        return HarnessEvent(self.harness, stamp_ns, session_id, f"extension.{name}", {**given, "pid": pid})


def _stand_in(launch: Launch) -> dict[str, str]:
    """Let a Pi that a tool starts by its name load the extension, and return the variable that says where it is.

    It is found in the recording's folder, before the one that would be found: where that folder is gone, or out of
    reach, Pi is what it is without. Where there is none of that name there is no stand-in.
    """
    folders = launch.environment.get("PATH")
    program = None if folders is None else shutil.which("pi", path=folders)
    if program is None:
        return {}
    folder = launch.folder / "bin"
    folder.mkdir(mode=0o700)
    words = {"program": shlex.quote(os.path.abspath(program)), "extension": shlex.quote(str(EXTENSION))}
    script = Path(folder, "pi")
    write_private(script, _STAND_IN.format(**words).encode())
    script.chmod(0o700)
    return {"PATH": f"{folder}{os.pathsep}{folders}"}
