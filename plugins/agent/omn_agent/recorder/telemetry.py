"""What Claude Code's telemetry says, taken out of OTLP's JSON: by a list of names that may be kept, and nothing else.

On every record ride the person's account and mail address, and more may come with another version: what is not named
here is never kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from omn_agent.importing.fields import find_text, get_object

_KEPT = {
    "session.id": "session_id",
    "event.sequence": "sequence",
    "request_id": "request_id",
    "model": "model",
    "effort": "effort",
    "query_source": "query_source",
    "duration_ms": "duration_ms",
    "ttft_ms": "ttft_ms",
    "attempt": "attempt",
    "stop_reason": "stop_reason",
    "status_code": "status_code",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_tokens",
    "cache_creation_tokens": "cache_creation_tokens",
    "tool_use_id": "tool_use_id",
    "success": "success",
    "trigger": "trigger",
    "pre_tokens": "pre_tokens",
    "post_tokens": "post_tokens",
    "agent_id": "agent_id",
    "parent_agent_id": "parent_agent_id",
}
_LONGEST_TEXT = 200
_SPAN_DIGITS = 16
_PREFIX = "claude_code."


def iter_logs(body: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the fields of each event in a request to /v1/logs. Raises ValueError for what is no JSON."""
    for record in _iter_records(body, "resourceLogs", "scopeLogs", "logRecords"):
        attributes = _read_attributes(record)
        name = attributes.get("event.name")
        if isinstance(name, str):
            yield name.removeprefix(_PREFIX), _keep(record, attributes, ("timeUnixNano",))


def iter_spans(body: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the fields of each span in a request to /v1/traces. Raises ValueError for what is no JSON."""
    for record in _iter_records(body, "resourceSpans", "scopeSpans", "spans"):
        name = find_text(record, "name")
        if name is not None:
            kept = _keep(record, _read_attributes(record), ("startTimeUnixNano", "endTimeUnixNano"))
            for given, ours in (("spanId", "span_id"), ("parentSpanId", "parent_span_id")):
                found = find_text(record, given)
                if found is not None and len(found) == _SPAN_DIGITS:
                    kept[ours] = found.lower()
            yield f"span.{name.removeprefix(_PREFIX)}", kept


def _iter_records(body: bytes, resources: str, scopes: str, records: str) -> Iterator[Mapping[str, Any]]:
    for resource in _list(json.loads(body), resources):
        for scope in _list(resource, scopes):
            yield from _list(scope, records)


def _list(holder: Any, name: str) -> list[Mapping[str, Any]]:
    found = holder.get(name) if isinstance(holder, dict) else None
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _read_attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's attributes of one value each; integers come as text, as protobuf's JSON has them."""
    found: dict[str, Any] = {}
    for attribute in _list(record, "attributes"):
        key, value = find_text(attribute, "key"), get_object(attribute, "value")
        if key is not None:
            found[key] = next((_read_value(kind, one) for kind, one in value.items()), None)
    return found


def _read_value(kind: str, value: Any) -> Any:
    if kind == "intValue":
        return _read_count(value)
    return value if isinstance(value, str | bool | int | float) else None


def _read_count(value: Any) -> int | None:
    """Return a number, which may be a text of digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _keep(record: Mapping[str, Any], attributes: Mapping[str, Any], times: tuple[str, ...]) -> dict[str, Any]:
    """Return what may be kept: named attributes, numbers of them that came as texts as numbers, and stamps."""
    kept: dict[str, Any] = {}
    for name, ours in _KEPT.items():
        value = attributes.get(name)
        if value is None:
            continue
        number = _read_count(value) if ours.endswith(("_ms", "_tokens")) or ours in ("sequence", "attempt") else None
        kept[ours] = number if number is not None else value[:_LONGEST_TEXT] if isinstance(value, str) else value
    for name, ours in zip(times, ("start_unix_ns", "end_unix_ns") if len(times) > 1 else ("unix_ns",), strict=True):
        stamp = _read_count(record.get(name))
        if stamp:
            kept[ours] = stamp
    return kept
