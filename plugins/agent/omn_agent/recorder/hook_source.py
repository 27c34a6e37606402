"""Hooks as a source of events: the socket and the spool that the client speaks to, and Claude Code's plugin for it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from omn_agent.files import write_private
from omn_agent.harness import Harness
from omn_agent.hook.client import get_client, is_compiled
from omn_agent.importing.fields import find_count, find_nanoseconds, find_text, get_object
from omn_agent.recorder.channels import Channels, bind_in_folder
from omn_agent.recorder.event import HarnessEvent, Launch, Preparation
from omn_agent.recorder.hook_file import CONTENT_VARIABLE, FOLDER_VARIABLE, find_hook_file, has_hooks

EVENTS = (
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "StopFailure",
    "PreCompact",
    "PostCompact",
)
"""The events that a recording is told of."""

_SILENT = "no hook told anything (settings, policies or a lack of trust stop hooks): tools last from line to line"
_SLOW = ("each hook costs a start of Python: no compiler was there when omn-agent was installed",)
_BACKLOG = 4096
_LONGEST_MESSAGE = 1 << 20
_TIMEOUT_S = 5
_WITHOUT_HOOKS = frozenset({"--bare", "--safe-mode"})


@attrs.define
class HookSource:
    """The recorder's end of hooks. Each connection carries whole events; most carry one."""

    harness: Harness
    _folder: Path | None = None
    _channels: Channels[None] = attrs.field(factory=lambda: Channels("hook", lambda: None, _LONGEST_MESSAGE))
    _received: int = 0
    _is_expected: bool = False

    def prepare(self, launch: Launch) -> Preparation:
        """Listen, and let Claude Code run the client at each event of this launch; others' hooks stand in files."""
        self._folder = launch.folder
        (launch.folder / "spool").mkdir(mode=0o700)
        self._channels.listen(bind_in_folder(launch.folder, "hooks", socket.SOCK_SEQPACKET), _BACKLOG)
        if launch.harness is Harness.CLAUDE:
            return self._prepare_claude(launch)
        self._is_expected = has_hooks(find_hook_file(launch.harness, launch.environment))
        told = {FOLDER_VARIABLE: str(launch.folder), CONTENT_VARIABLE: "on" if launch.has_content else "off"}
        return Preparation(environment=told, degradations=_SLOW if self._is_expected and not is_compiled() else ())

    def fileno(self) -> int:
        """Return the epoll that the socket and its connections are in."""
        return self._channels.fileno()

    def receive(self) -> Iterator[HarnessEvent]:
        """Yield what arrived at the socket and in the spool."""
        for _, message in self._channels.receive():
            yield from self._take(message)
        yield from self._take_spooled()

    def count_losses(self) -> Mapping[str, int]:
        """Return what was lost: events that were no JSON, drops that clients counted."""
        return self._channels.losses

    def list_degradations(self) -> Sequence[str]:
        """Say that no hook told anything, where some were to."""
        if self._is_expected and not self._received:
            return (_SILENT,)
        return ()

    def close(self) -> None:
        """Close the socket and its connections."""
        self._channels.close()

    def _prepare_claude(self, launch: Launch) -> Preparation:
        off = sorted(_WITHOUT_HOOKS & set(launch.argv))
        if off:
            return Preparation(degradations=(f"claude runs no hooks with {off[0]}",))
        self._is_expected = True
        plugin = launch.folder / "plugin"
        (plugin / ".claude-plugin").mkdir(parents=True)
        (plugin / "hooks").mkdir()
        manifest = {"name": "omn-recorder", "version": "1.0.0", "description": "Tells omn of this session."}
        write_private(plugin / ".claude-plugin" / "plugin.json", json.dumps(manifest).encode())
        hooks = make_hooks(launch.harness, launch.folder, launch.has_content)
        write_private(plugin / "hooks" / "hooks.json", json.dumps({"hooks": hooks}).encode())
        return Preparation(arguments=("--plugin-dir", str(plugin)), degradations=() if is_compiled() else _SLOW)

    def _take_spooled(self) -> Iterator[HarnessEvent]:
        if self._folder is not None:
            for message in read_spool(self._folder, is_taken=True):
                yield from self._take(message)

    def _take(self, message: bytes) -> Iterator[HarnessEvent]:
        event = parse_message(self.harness, message)
        if event is None:
            self._channels.lose("hook_malformed")
        else:
            self._received += 1
            yield event


def make_hooks(harness: Harness, folder: Path, has_content: bool) -> dict[str, Any]:
    """Return the hooks of a configuration: the client for each event, executed without a shell."""
    program, *first = get_client()
    handler = {
        "type": "command",
        "command": program,
        "args": [*first, harness.value, str(folder), "on" if has_content else "off"],
        "timeout": _TIMEOUT_S,
    }
    return {event: [{"hooks": [handler]}] for event in EVENTS}


def read_spool(folder: Path, is_taken: bool) -> Iterator[bytes]:
    """Yield what clients spooled, oldest first; `is_taken` takes each away."""
    try:
        names = sorted(name for name in os.listdir(folder / "spool") if name[0] != "." and name != "drops")
    except OSError:
        return
    for name in names:
        path = folder / "spool" / name
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if is_taken:
                path.unlink()
            yield content


def count_drops(folder: Path) -> int:
    """Return how many events clients had while no recorder was there."""
    try:
        return (folder / "spool" / "drops").stat().st_size
    except OSError:
        return 0


def parse_message(harness: Harness, message: bytes) -> HarnessEvent | None:
    """Return what a client told, None where it is no event of this harness. An input of its own it may not have had."""
    try:
        told = json.loads(message)
    except (ValueError, RecursionError):
        return None
    stamp_ns = find_nanoseconds(told, "stamp_ns")
    if stamp_ns is None or find_text(told, "harness") != harness.value:
        return None
    given = get_object(told, "input")
    name = find_text(given, "hook_event_name") or ("Unnamed" if given else "Unparsed")
    payload = {**given, **{field: find_count(told, field) for field in ("pid", "client", "size")}}
    return HarnessEvent(harness, stamp_ns, find_text(given, "session_id"), f"hook.{name}", payload)
