"""The client of hooks where no compiler was: what `client.c` does, with an interpreter's start each time.

Run by its path, with nothing but the standard library: `python3 -I -S slow.py HARNESS FOLDER on|off`. It prints nothing
and ends with 0 whatever happens, as a hook that failed would be shown to the person who works.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from typing import Any

_LONGEST_INPUT = 64 << 20
_LONGEST_MESSAGE = 128 << 10
_PATIENCE_S = 0.2
_MOST_SPOOLED = 10_000
_WORD = re.compile(r"[A-Za-z0-9_-]{0,64}")
_WORDS = ("hook_event_name", "permission_mode", "source", "trigger", "reason")
_LENGTHS = {"transcript_path": 8192, "agent_transcript_path": 8192, "cwd": 8192} | dict.fromkeys(
    ("session_id", "prompt_id", "turn_id", "agent_id", "agent_type", "tool_name", "tool_use_id", "model"), 512
)
_NUMBERS = ("duration_ms", "is_interrupt")


def filter_input(given: Any, has_content: bool) -> dict[str, Any] | None:
    """Return the members of a hook's input that may be handed on, None where it is no object."""
    if not isinstance(given, dict):
        return None
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, str):
            if (name in _WORDS and _WORD.fullmatch(value)) or len(value.encode("utf-8", "replace")) <= _LENGTHS.get(
                name, -1
            ):
                kept[name] = value
        elif name in _NUMBERS and isinstance(value, bool | int | float):
            kept[name] = value
    kept |= _filter_parts(given)
    if isinstance(given.get("prompt"), str):
        length = len(given["prompt"].encode("utf-16-le", "surrogatepass")) // 2
        kept |= {"prompt": given["prompt"]} if has_content else {"prompt_length": length}
    if has_content and "tool_input" in given:
        kept["tool_input"] = given["tool_input"]
    return kept


def _filter_parts(given: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    response, effort = (_get_object(given.get(name)) for name in ("tool_response", "effort"))
    for name in ("agentId", "agent_id"):
        child = response.get(name)
        if isinstance(child, str) and len(child) <= 512:
            kept["child_id"] = child
    level = effort.get("level")
    if isinstance(level, str) and _WORD.fullmatch(level):
        kept["effort"] = level
    return kept


def _get_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def parse_input(content: bytes) -> Any:
    """Return the value that a text of JSON stands for, None where it is none."""
    try:
        return json.loads(content.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _deliver(message: bytes) -> bool | None:
    """Hand a message to the recorder: True where it has it, False where it is busy, None where it is gone."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.settimeout(_PATIENCE_S)
        try:
            channel.connect("hooks")
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError:
            return False
        try:
            return len(message) <= _LONGEST_MESSAGE and channel.send(message) == len(message)
        except OSError:
            return False


def _spool(stamp_ns: int, message: bytes) -> bool:
    """Put a message into the recorder's spool; False where it is not there whole."""
    name = f"{stamp_ns:020d}-{os.getpid()}"
    try:
        descriptor = os.open(f"spool/.{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(message)
            os.rename(f"spool/.{name}", f"spool/{name}")
        except OSError:
            os.unlink(f"spool/.{name}")
            raise
    except OSError:
        return False
    return True


def _count_drop() -> int:
    descriptor = os.open("spool/drops", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, b".")
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _run(stamp_ns: int, harness: str, has_content: bool) -> None:
    content = sys.stdin.buffer.read(_LONGEST_INPUT + 1)
    given = parse_input(content) if len(content) <= _LONGEST_INPUT else None
    while sys.stdin.buffer.read(1 << 20):  # the rest of what is too long, so that its writer is not cut off
        pass

    def encode(is_kept: bool) -> bytes:
        event = {"stamp_ns": stamp_ns, "harness": harness[:20], "pid": os.getppid()}
        event |= {"client": os.getpid(), "size": len(content)}
        return json.dumps({**event, "input": filter_input(given, is_kept)}).encode()

    delivered = _deliver(encode(has_content))
    if delivered is False and not _spool(stamp_ns, encode(has_content)):
        _count_drop()
    elif delivered is None and _count_drop() <= _MOST_SPOOLED:
        _spool(stamp_ns, encode(False))


if __name__ == "__main__":
    started_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    try:
        os.chdir(sys.argv[2])
        _run(started_ns, sys.argv[1], sys.argv[3] == "on")
    except (OSError, IndexError, MemoryError):
        sys.exit(0)
