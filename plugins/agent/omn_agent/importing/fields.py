"""Values of session files, taken with suspicion: what has another type than it should is absent."""

from __future__ import annotations

import datetime
import json
from typing import Any

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST_NS = 1 << 63
_MOST_COUNT = 1 << 53
_MILLISECOND = 1_000_000
_MICROSECOND = datetime.timedelta(microseconds=1)


def parse_time(value: Any) -> int | None:
    """Return an ISO time as nanoseconds since the epoch, None where it is none that fits. One without a zone is UTC."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    ts_ns = (moment - _EPOCH) // _MICROSECOND * 1000
    return ts_ns if 0 <= ts_ns < _MOST_NS else None


def get_object(value: Any, *names: str) -> dict[str, Any]:
    """Return the object at a path of names; an empty one where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def find_text(value: Any, *names: str) -> str | None:
    """Return the first of some fields that is text with anything in it."""
    for name in names:
        found = value.get(name) if isinstance(value, dict) else None
        if isinstance(found, str) and found:
            return found
    return None


def find_count(value: Any, *names: str) -> int | None:
    """Return the first of some fields that is a count, below 2^53: past it no reader of JSON keeps a number."""
    for name in names:
        found = value.get(name) if isinstance(value, dict) else None
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST_COUNT:
            return found
    return None


def find_nanoseconds(value: Any, name: str) -> int | None:
    """Return a field of nanoseconds, None where it is none that fits a trace: a wall clock's are far above 2^53."""
    found = value.get(name) if isinstance(value, dict) else None
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST_NS:
        return found
    return None


def find_milliseconds(value: Any, name: str) -> int | None:
    """Return a field of milliseconds, whole or not, as nanoseconds; None where it is none that fits a trace."""
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, int | float) or isinstance(found, bool):
        return None
    return int(found * _MILLISECOND) if 0 <= found < _MOST_NS // _MILLISECOND else None


def find_milliseconds_before(value: Any, name: str, end_ns: int) -> int | None:
    """Return when what took a field's milliseconds until a time began, None where that clock had not begun by then."""
    duration_ns = find_milliseconds(value, name)
    return end_ns - duration_ns if duration_ns is not None and duration_ns <= end_ns else None


def get_items(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def get_content_text(content: Any) -> str | None:
    """Return a message's text: itself, or its text parts one after another; None where it has none."""
    if isinstance(content, str):
        return content
    parts = [find_text(item, "text") for item in get_items(content)]
    texts = [part for part in parts if part is not None]
    return "\n".join(texts) if texts else None


def parse_json(text: Any) -> Any:
    """Return the value that a text of JSON stands for, what was given where it is none."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def add_counts(*counts: int | None) -> int | None:
    """Return the sum of those that are known, None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
