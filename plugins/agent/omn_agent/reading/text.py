"""The report as text. What was not recorded says so; nothing else is made of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from omn_agent.reading.machine_text import render_machine
from omn_agent.reading.report import list_unhealthy

_ABSENT = "Not recorded"
_MOST_SCRIPTS = 10


def render_report(report: dict[str, Any]) -> str:
    """Return the report's lines."""
    lines = ["What happened in this recording?"]
    for group in report["groups"]:
        lines += ["", *_render_group(group)]
    if report["slow_tools"]:
        lines += ["", "Slowest tools", *map(_render_tool, report["slow_tools"])]
    if report["scripts"]:
        lines += ["", "Scripts", *map(_render_script, report["scripts"][:_MOST_SCRIPTS])]
    if report["machine"] is not None and report["machine"]["tools"]:
        lines += ["", "Tools and the machine", *map(_clean, render_machine(report["machine"]))]
    lines += ["", "Health", *_render_health(report)]
    return "\n".join(lines)


def _render_group(group: dict[str, Any]) -> Iterable[str]:
    name = group["label"] or group["session"] or "a session without an id"
    labels = dict.fromkeys(group["session_labels"] or [])
    yield _clean(f"{name} ({', '.join(group['harnesses']) or _ABSENT})" + "".join(f" [{label}]" for label in labels))
    rows = {
        "window": f"{_time(group['window_ns'])} from {_date(group['start_ns'])}, {group['captures']} captures",
        "model": _list(group["models"]),
        "provider": _list(group["providers"]),
        "effort": _list(group["efforts"]),
        "tokens": f"input {_count(group['input_tokens'])}, output {_count(group['output_tokens'])}"
        f"; {group['responses_with_usage']} of {group['responses']} responses report any",
        "rate": _ABSENT
        if group["output_tokens_per_second"] is None
        else f"{group['output_tokens_per_second']:.1f} output tokens/s",
        "context": f"{_count(group['context_tokens'])} at most, share of the limit {_share(group['context_share'])}",
        "busy": _share(group["busy_share"]),
        "at once": f"{_count(group['peak_concurrent_tools'])} tools at most",
        "did": f"prompts {group['prompts']}, turns {_count(group['turns'])}, responses {group['responses']}, "
        f"tools {group['tools']}, scripts {group['scripts']}, compactions {group['compactions']}, "
        f"incomplete {group['incomplete']}",
    }
    yield from (_clean(f"  {label:<10}{text}") for label, text in rows.items())


def _render_tool(tool: dict[str, Any]) -> str:
    failed = " failed" if tool["is_error"] else ""
    about = f"  {tool['about']}" if tool["about"] else ""
    return _clean(f"  {_time(tool['duration_ns']):>10}  {tool['name']}{failed}{about}")[:160]


def _render_script(script: dict[str, Any]) -> str:
    lines = "lines not recorded"
    if script["lines"] is not None:
        lines = f"{'>= ' if script['lines_at_least'] else ''}{script['lines']} lines"
    calls = ", ".join(script["calls"]) or "nothing"
    language = script["language"] or "language not recorded"
    return _clean(f"  {_time(script['duration_ns']):>10}  {script['name']}: {language}, {lines}; called {calls}")[:160]


def _render_health(report: dict[str, Any]) -> Iterable[str]:
    wrong = list(list_unhealthy(report["health"]))
    for capture in report["captures"]:
        name = capture["session"] or "a session without an id"
        if capture["is_open"]:
            wrong.append(f"{name}: nobody recorded its end")
        for field, text in (("dropped_events", "events dropped"), ("lane_overflows", "tools found no lane")):
            if capture[field]:
                wrong.append(f"{name}: {capture[field]} {text}")
        if capture["unverified"]:
            wrong.append(f"{name}: its reader was never held to a real session")
    for run in (report["machine"] or {"runs": []})["runs"]:
        wrong += [f"{run['file']}: {sentence}" for sentence in run["reservations"]]
    packets = sum(file["packets"] for file in report["health"]["files"])
    yield f"  {packets} packets in {len(report['health']['files'])} files, {len(report['captures'])} captures"
    yield from (_clean(f"  {line}") for line in wrong or ["nothing is missing that the recordings tell of"])


def _clean(text: str) -> str:
    """Return text that a terminal shows and does not obey."""
    if text.isprintable():
        return text
    return "".join(part if part.isprintable() else part.encode("unicode_escape").decode() for part in text)


def _list(values: list[str]) -> str:
    return ", ".join(values) or _ABSENT


def _count(value: int | None) -> str:
    return _ABSENT if value is None else f"{value}"


def _share(value: float | None) -> str:
    return _ABSENT if value is None else f"{value:.1%}"


def _time(value_ns: int | None) -> str:
    return _ABSENT if value_ns is None else f"{value_ns / 1e9:.3f} s"


def _date(ts_ns: int) -> str:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=ts_ns // 1000)
    return moment.isoformat(timespec="milliseconds")
