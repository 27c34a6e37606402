"""Session files of coding agents, written for tests: every word in them is invented."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_lines(path: Path, records: Iterable[Mapping[str, Any] | str]) -> Path:
    """Write records as lines; a text is written as it is, without an end of line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(record if isinstance(record, str) else json.dumps(record, ensure_ascii=False) + "\n")
    return path


def stamp(second: float) -> str:
    """Return the ISO time of a second of the tests' morning."""
    return f"2026-03-01T09:{int(second) // 60:02d}:{second % 60:06.3f}Z"


class ClaudeLines:
    """Lines of Claude Code's session files, uuids counted up."""

    def __init__(self, session: str = "11111111-2222-4333-8444-555555555555", prefix: str = "u", **common: Any) -> None:
        self.common = {"sessionId": session, "version": "2.1.212", "cwd": "/home/ada/garden", **common}
        self.prefix = prefix
        self.count = 0
        self.last: str | None = None

    def make(self, kind: str, second: float, **fields: Any) -> dict[str, Any]:
        """Return a line."""
        self.count += 1
        uuid = f"{self.prefix}{self.count}"
        line = {
            "type": kind, "uuid": uuid, "parentUuid": self.last, "timestamp": stamp(second), "isSidechain": False,
            **self.common, **fields,
        }  # fmt: skip
        self.last = uuid
        return line

    def user(self, second: float, text: str, **fields: Any) -> dict[str, Any]:
        """Return what a person typed."""
        return self.make("user", second, message={"role": "user", "content": text}, **fields)

    def result(self, second: float, call: str, **fields: Any) -> dict[str, Any]:
        """Return a tool's result."""
        block = {"type": "tool_result", "tool_use_id": call, "content": "RESULTWORD"}
        return self.make("user", second, message={"role": "user", "content": [block]}, **fields)

    def answer(
        self, second: float, message: str, usage: tuple[int, int], *, request: str | None = "req", calls: Any = (),
        cache: tuple[int, int] = (0, 0), **fields: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Return one line of a response: its usage so far, and perhaps calls as (id, name, input)."""
        content = [{"type": "tool_use", "id": call, "name": name, "input": args} for call, name, args in calls]
        body = {
            "id": message, "role": "assistant", "model": "poppy-5",
            "content": content or [{"type": "text", "text": "ANSWERWORD"}],
            "usage": {
                "input_tokens": usage[0], "output_tokens": usage[1],
                "cache_read_input_tokens": cache[0], "cache_creation_input_tokens": cache[1],
            },
        }  # fmt: skip
        if request is not None:
            fields["requestId"] = request
        return self.make("assistant", second, message=body, **fields)


def codex_line(second: float, kind: str, payload: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a line of a rollout."""
    return {"timestamp": stamp(second), "type": kind, "payload": payload, **fields}


def codex_meta(second: float, session: str, **fields: Any) -> dict[str, Any]:
    """Return a rollout's first line."""
    meta = {"id": session, "timestamp": stamp(second), "cli_version": "0.150.0", "originator": "x", **fields}
    return codex_line(second, "session_meta", meta)


def codex_event(second: float, what: str, **fields: Any) -> dict[str, Any]:
    """Return an event's line."""
    return codex_line(second, "event_msg", {"type": what, **fields})


def codex_count(
    second: float, total: tuple[int, int, int], last: tuple[int, int, int] | None, window: int | None = 1_000
) -> dict[str, Any]:
    """Return a token count: (input, cached in it, output), of everything and of the last response."""

    def usage(row: tuple[int, int, int]) -> dict[str, int]:
        return {"input_tokens": row[0], "cached_input_tokens": row[1], "output_tokens": row[2],
                "reasoning_output_tokens": 0, "total_tokens": row[0] + row[2]}  # fmt: skip

    info: dict[str, Any] = {"total_token_usage": usage(total), "model_context_window": window}
    if last is not None:
        info["last_token_usage"] = usage(last)
    return codex_event(second, "token_count", info=info)
