"""Sessions by their processes: Claude Code keeps a file for each that runs, also where a tool of the launched began it.

`$CLAUDE_CONFIG_DIR/sessions/<pid>.json` names the session that a process has now, and when that process started, in
clock ticks since the boot. What a Bash tool runs has its session's id in its environment, so that a session knows its
parent. Both were seen in version 2.1.197; neither is documented, and where one is missing nothing is told.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from omn_agent.harness import Harness
from omn_agent.importing.fields import find_text
from omn_agent.recorder.event import HarnessEvent, Launch, Preparation
from omn_agent.recorder.launch import read_start_ticks
from omn_agent.recorder.places import get_claude_home, iter_tree
from omn_agent.recorder.watch import FolderWatch

_SESSION_VARIABLE = b"CLAUDE_CODE_SESSION_ID="


@attrs.define
class ProcessSource:
    """Sessions of the processes that descend from this one, looked at each second and whenever a file is written."""

    harness: Harness
    _home: Path | None = None
    _watch: FolderWatch | None = None
    _epoll: select.epoll = attrs.field(factory=select.epoll)
    _processes: dict[int, int] = attrs.field(factory=dict)
    """The processes that have a session, each with the descriptor that is readable once it is over."""
    _running: dict[tuple[int, str], bool] = attrs.field(factory=dict)
    """The sessions by their processes, and whether their file was found."""
    _others: set[int] = attrs.field(factory=set)
    """The processes that are somebody else's, or over."""

    def prepare(self, launch: Launch) -> Preparation:
        """Take note of where the files are, and of those that are somebody else's already."""
        self._home = get_claude_home(launch.environment)
        self._others = set(self._list_files())
        self._watch = FolderWatch(self._home / "sessions")
        if self._watch.descriptor is not None:
            self._epoll.register(self._watch.descriptor, select.EPOLLIN)
        return Preparation()

    def fileno(self) -> int:
        """Return the epoll that those processes are in, and the watch of the folder of their files."""
        return self._epoll.fileno()

    def receive(self) -> Iterator[HarnessEvent]:
        """Yield the sessions that began, those whose file is there now, and those that are over."""
        if self._watch is not None:
            self._watch.take()
        self._forget_ended()
        named = self._find_sessions()
        for pid, session in sorted(named - self._running.keys()):
            self._running[pid, session] = False
            yield self._tell("session_seen", session, pid=pid, parent_session=self._find_parent(pid, session))
        for (pid, session), is_found in list(self._running.items()):
            path = None if is_found else self._find_transcript(session)
            if path is not None:
                self._running[pid, session] = True
                yield self._tell("file_seen", session, transcript_path=str(path))
            if (pid, session) not in named:
                del self._running[pid, session]
                yield self._tell("session_gone", session)

    def _forget_ended(self) -> None:
        over = {descriptor for descriptor, _ in self._epoll.poll(0)}
        for pid, descriptor in list(self._processes.items()):
            if descriptor in over:
                self._others.add(pid)
                self._epoll.unregister(descriptor)
                os.close(self._processes.pop(pid))

    def _find_sessions(self) -> set[tuple[int, str]]:
        """Return the sessions of this process's descendants, each with its process."""
        found = self._list_files()
        self._others &= found.keys()
        if new := found.keys() - self._others - self._processes.keys():
            tree = set(iter_tree(os.getpid()))
            for pid in new:
                self._hold(pid, pid in tree)
        named = set()
        for pid in self._processes:
            session = _read_session(pid, found[pid]) if pid in found else None
            # A file that is being written, or is gone before its process is, says nothing new.
            named |= {row for row in self._running if row[0] == pid} if session is None else {(pid, session)}
        return named

    def _hold(self, pid: int, is_own: bool) -> None:
        try:
            descriptor = os.pidfd_open(pid) if is_own else None
        except OSError:  # it ended meanwhile
            descriptor = None
        if descriptor is None:
            self._others.add(pid)
        else:
            self._processes[pid] = descriptor
            self._epoll.register(descriptor, select.EPOLLIN)

    def count_losses(self) -> Mapping[str, int]:
        """Return nothing: what was never seen cannot be counted."""
        return {}

    def list_degradations(self) -> Sequence[str]:
        """Return nothing: most recordings have one session, which hooks tell of."""
        return ()

    def close(self) -> None:
        """Close every descriptor."""
        for descriptor in self._processes.values():
            os.close(descriptor)
        if self._watch is not None:
            self._watch.close()
        self._epoll.close()

    def _tell(self, name: str, session: str, **payload: str | int | None) -> HarnessEvent:
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return HarnessEvent(self.harness, now_ns, session, f"process.{name}", payload)

    def _list_files(self) -> dict[int, Path]:
        assert self._home is not None
        folder = self._home / "sessions"
        try:
            names = os.listdir(folder)
        except OSError:  # a version that keeps none, or nothing ran yet
            return {}
        stems = (name.removesuffix(".json") for name in names)
        return {int(stem): folder / f"{stem}.json" for stem in stems if stem.isdecimal()}

    def _find_transcript(self, session: str) -> Path | None:
        assert self._home is not None
        return next((self._home / "projects").glob(f"*/{session}.jsonl"), None)

    def _find_parent(self, pid: int, session: str) -> str | None:
        """Return the session whose tool started a process, where that is one of this recording's."""
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return None
        given = (row.removeprefix(_SESSION_VARIABLE) for row in variables if row.startswith(_SESSION_VARIABLE))
        parent = os.fsdecode(next(given, b""))
        return parent if parent != session and any(parent == known for _, known in self._running) else None


def _read_session(pid: int, path: Path) -> str | None:
    """Return the session that a file says a process has; None where another process of that number wrote it."""
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError):  # gone, or half written
        return None
    session, started = find_text(told, "sessionId"), find_text(told, "procStart")
    if session is None or "/" in session or "*" in session or read_start_ticks(pid) is None:
        return None
    return session if started is None or started == str(read_start_ticks(pid)) else None
