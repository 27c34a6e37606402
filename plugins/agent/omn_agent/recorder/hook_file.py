"""Hooks in a configuration of the user's: written where the person asks for it, and idle where nobody records.

Codex and Muse Code take hooks from files alone. What is written there names no recording: the recorder gives its folder
to the harness that it launches, and without one the client ends at once. Codex runs a hook only once the person trusted
it, and asks again when it changes, so that it never does.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omn_agent.files import write_private
from omn_agent.harness import Harness
from omn_agent.hook.client import get_client
from omn_agent.recorder.places import get_codex_home
from omn_core.api import RequestError, RunFailed

FOLDER_VARIABLE = "OMN_AGENT_FOLDER"
CONTENT_VARIABLE = "OMN_AGENT_CONTENT"

_EVENTS = {
    Harness.CODEX: (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "SubagentStart",
        "SubagentStop",
        "Stop",
        "PreCompact",
        "PostCompact",
    ),
    Harness.MUSE: ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "PostCompact"),
}


def find_hook_file(harness: Harness, environment: Mapping[str, str]) -> Path | None:
    """Return the file that a harness takes hooks from, None where it takes them from the command line."""
    if harness is Harness.CODEX:
        return get_codex_home(environment) / "hooks.json"
    return Path(".muse", "hooks.json").absolute() if harness is Harness.MUSE else None


def make_hook_file(harness: Harness) -> dict[str, Any]:
    """Return what is written: the client for each event, in words of a shell, with no key that may not be known."""
    command = f'{shlex.join((*get_client(), harness.value))} "${FOLDER_VARIABLE}" "${CONTENT_VARIABLE}"'
    handler = {"type": "command", "command": command}
    return {"hooks": {event: [{"hooks": [handler]}] for event in _EVENTS[harness]}}


def has_hooks(path: Path | None) -> bool:
    """Return whether a file holds hooks of omn's."""
    try:
        return path is not None and FOLDER_VARIABLE in path.read_text()
    except (OSError, UnicodeDecodeError):
        return False


def write_hooks(harness: Harness, environment: Mapping[str, str]) -> str:
    """Write a harness's hooks into its configuration, and return what was written in a sentence.

    Raises RequestError where the harness needs none written, or has hooks of somebody's own: those are never changed.
    """
    path = find_hook_file(harness, environment)
    if path is None:
        raise RequestError(f"{harness.value} needs no hooks written", "it is told of them when it is launched")
    text = json.dumps(make_hook_file(harness), indent=2) + "\n"
    if path.exists() and path.read_text(errors="replace") == text:
        return f"the hooks in {str(path)!r} are omn's already"
    if path.exists():
        raise RequestError(
            f"{str(path)!r} holds hooks of somebody's own",
            f"add those that omn writes to it: {json.dumps(json.loads(text))}",
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, text.encode())
    except OSError as error:
        raise RunFailed(f"{str(path)!r} cannot be written: {error.strerror}") from error
    trust = ", once they are trusted with /hooks," if harness is Harness.CODEX else ""
    return f"wrote {str(path)!r}: hooks that{trust} tell a recorder of {', '.join(_EVENTS[harness])}, and nobody else"
