"""The report as text. What was not recorded says so; nothing else is made of it."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterable
from typing import Any

from omn_agent.reading.machine_text import render_machine
from omn_agent.reading.report import list_unhealthy
from omn_core.api import render_printable

_ABSENT = "Not recorded"
_MOST_SCRIPTS = 10
_MOST_ROWS = 10
_LABEL = 12
WIDTH = 160
"""How long a line of a list is at most where no terminal says so."""


def render_report(report: dict[str, Any], width: int = WIDTH) -> str:
    """Return the report's lines: lists are cut at a width, what is said of a session is folded into it."""
    lines = ["What happened in this recording?"]
    for group in report["groups"]:
        lines += ["", *_render_group(group, width)]
        if len(group["members"]) > 1:
            lines += _render_list(_iter_agents(report, group), width)
    for title, rows in (
        ("Tools by name", _iter_names(report["tools"])),
        ("Slowest tools", map(_describe_tool, report["slow_tools"])),
        ("Slowest responses", _iter_responses(report["responses"])),
        ("Scripts", map(_describe_script, report["scripts"][:_MOST_SCRIPTS])),
        ("Unfinished", _iter_unfinished(report["unfinished"])),
        ("Tools and the machine", render_machine(report["machine"] or {"tools": [], "disputed": []})),
    ):
        found = _render_list(rows, width)
        lines += ["", title, *found] if found else []
    lines += ["", "Health", *_render_health(report)]
    return "\n".join(lines)


def _render_list(rows: Iterable[str], width: int) -> list[str]:
    return [render_printable(row, width) for row in rows]


def _render_group(group: dict[str, Any], width: int) -> Iterable[str]:
    name = group["label"] or group["session"] or "a session without an id"
    labels = "".join(f" [{label}]" for label in group["session_labels"] or [])
    yield render_printable(f"{name} ({', '.join(group['harnesses']) or _ABSENT}){labels}")
    for label, text in _iter_group(group):
        room = max(width - _LABEL, 30)
        folded = textwrap.wrap(render_printable(text), room, break_long_words=False, break_on_hyphens=False) or [""]
        yield f"  {label:<{_LABEL - 2}}{folded[0]}"
        yield from (f"{'':{_LABEL}}{rest}" for rest in folded[1:])


def _iter_group(group: dict[str, Any]) -> Iterable[tuple[str, str]]:
    if group["first_prompt"] is not None:
        yield "asked", _fold_space(group["first_prompt"])
    yield "window", f"{_time(group['window_ns'])} from {_date(group['start_ns'])}, {group['captures']} captures"
    yield "model", _list(group["models"])
    yield "provider", _list(group["providers"])
    yield "effort", _list(group["efforts"])
    reported = f"{group['responses_with_usage']} of {group['responses']} responses report any"
    yield "tokens", f"input {_count(group['input_tokens'])}, output {_count(group['output_tokens'])}; {reported}"
    cached = {"read": group["cache_read_tokens"], "written": group["cache_write_tokens"]}
    known = [f"{word} {tokens} tokens" for word, tokens in cached.items() if tokens is not None]
    if known:
        yield "cache", ", ".join(known)
    rate = group["output_tokens_per_second"]
    yield "rate", _ABSENT if rate is None else f"{rate:.1f} output tokens/s"
    yield "context", f"{_count(group['context_tokens'])} at most, share of the limit {_share(group['context_share'])}"
    yield "busy", _describe_busy(group)
    yield "at once", f"{_count(group['peak_concurrent_tools'])} tools at most"
    counted = ("prompts", "turns", "responses", "tools", "scripts", "compactions", "incomplete")
    yield "did", ", ".join(f"{name} {_count(group[name])}" for name in counted)


def _describe_busy(group: dict[str, Any]) -> str:
    """Return the share of the window that anything covers, and what of it is whose; what was not timed is said."""
    activity, window_ns = group["activity"], group["window_ns"]
    if group["busy_share"] is None:
        return _ABSENT
    words = {"responses_ns": "responses", "tools_ns": "tools", "both_ns": "both at once", "scripts_ns": "scripts alone"}
    parts = [f"{word} {_share(activity[name] / window_ns)}" for name, word in words.items() if activity[name]]
    untimed = [word for name, word in words.items() if name != "both_ns" and activity[name] is None]
    said = f"{_share(group['busy_share'])}" + (f": {', '.join(parts)}" if parts else "")
    return said + (f"; how long {' and '.join(untimed)} took was not recorded" if untimed else "")


def _iter_agents(report: dict[str, Any], group: dict[str, Any]) -> Iterable[str]:
    """Yield a line for each capture of a session that has several: subagents, and what came before and after."""
    yield "  of these"
    for place in group["members"]:
        row = report["captures"][place]
        name = (row["session"] or "a session without an id") + (f" ({row['role']})" if row["role"] else "")
        yield (
            f"  {_time(row['window_ns']):>10}  {name}: input {_count(row['input_tokens'])}, "
            f"output {_count(row['output_tokens'])}, responses {row['responses']}, tools {row['tools']}"
        )


def _iter_names(rows: list[dict[str, Any]]) -> Iterable[str]:
    if not rows:
        return
    yield f"  {'covered':>10}  {'longest':>10}  {'calls':>5}  {'failed':>6}"
    for row in rows[:_MOST_ROWS]:
        times = f"{_mark(row['covered_ns']):>10}  {_mark(row['longest_ns']):>10}"
        yield f"  {times}  {row['calls']:>5}  {'-' if row['failed'] is None else row['failed']:>6}  {row['name']}"
    if len(rows) > _MOST_ROWS:
        yield f"  and {len(rows) - _MOST_ROWS} more"


def _describe_tool(tool: dict[str, Any]) -> str:
    failed = " failed" if tool["is_error"] else ""
    about = f"  {_fold_space(tool['about'])}" if tool["about"] else ""
    return f"  {_time(tool['duration_ns']):>10}  {_clock(tool['start_ns'])}  {tool['name']}{failed}{about}"


def _iter_responses(rows: list[dict[str, Any]]) -> Iterable[str]:
    """Yield the responses that took longest, of those whose length was measured."""
    timed = [row for row in rows if row["duration_ns"] is not None]
    for row in sorted(timed, key=lambda row: -row["duration_ns"])[:_MOST_ROWS]:
        content = row["first_content_ns"]
        first = "" if content is None else f", its first content after {_time(content)}"
        tokens = f"{_count(row['output_tokens'])} output tokens"
        began_ns = row["ts_ns"]
        yield f"  {_time(row['duration_ns']):>10}  {_clock(began_ns)}  {row['model'] or _ABSENT}  {tokens}{first}"


def _iter_unfinished(rows: list[dict[str, Any]]) -> Iterable[str]:
    for row in rows[-_MOST_ROWS:]:
        about = f"  {_fold_space(row['about'])}" if row["about"] else ""
        yield f"  {'since':>10}  {_clock(row['start_ns'])}  {row['name']}{about}"
    if len(rows) > _MOST_ROWS:
        yield f"  and {len(rows) - _MOST_ROWS} before these"


def _describe_script(script: dict[str, Any]) -> str:
    lines = "lines not recorded"
    if script["lines"] is not None:
        lines = f"{'>= ' if script['lines_at_least'] else ''}{script['lines']} lines"
    calls = ", ".join(script["calls"]) or "nothing"
    language = script["language"] or "language not recorded"
    return f"  {_time(script['duration_ns']):>10}  {script['name']}: {language}, {lines}; called {calls}"


def _render_health(report: dict[str, Any]) -> Iterable[str]:
    wrong = list(list_unhealthy(report["health"]))
    for capture in report["captures"]:
        name = capture["session"] or "a session without an id"
        if capture["is_open"]:
            wrong.append(f"{name}: nobody recorded its end")
        for field, text in (("dropped_events", "events dropped"), ("lane_overflows", "tools found no lane")):
            if capture[field]:
                wrong.append(f"{name}: {capture[field]} {text}")
        wrong += [f"{name}: {reason.replace('_', ' ')}: {count}" for reason, count in capture["losses"].items()]
        wrong += [f"{name}: degraded: {text}" for text in capture["degradations"]]
        if capture["newer_schema"] is not None:
            wrong.append(f"{name}: follows version {capture['newer_schema']} of the contract, and is read as version 1")
        if capture["unverified"]:
            wrong.append(f"{name}: its reader was never held to a real session")
    for run in (report["machine"] or {"runs": []})["runs"]:
        wrong += [f"{run['file']}: {sentence}" for sentence in run["reservations"]]
    packets = sum(file["packets"] for file in report["health"]["files"])
    yield f"  {packets} packets in {len(report['health']['files'])} files, {len(report['captures'])} captures"
    yield from (render_printable(f"  {line}") for line in wrong or ["nothing is missing that the recordings tell of"])


def _fold_space(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def _list(values: list[str]) -> str:
    return ", ".join(values) or _ABSENT


def _count(value: int | None) -> str:
    return _ABSENT if value is None else f"{value}"


def _share(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:.1%}"


def _time(value_ns: int | None) -> str:
    return _ABSENT if value_ns is None else f"{value_ns / 1e9:.3f} s"


def _mark(value_ns: int | None) -> str:
    return "-" if value_ns is None else _time(value_ns)


def _date(ts_ns: int) -> str:
    return _get_moment(ts_ns).isoformat(timespec="milliseconds")


def _clock(ts_ns: int) -> str:
    """Return the time of the day, which is UTC's as the window's is."""
    return _get_moment(ts_ns).strftime("%H:%M:%S")


def _get_moment(ts_ns: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=ts_ns // 1000)
