"""What the machine did inside tools, as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MOST_TOOLS = 10
_MOST_DISPUTED = 5
_EVIDENCE = {"identity": "its span named them", "temporal": "forked inside it"}
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def render_machine(machine: dict[str, Any]) -> Iterable[str]:
    """Yield the lines on the tools that took longest, and on processes that nobody can give to one tool."""
    for tool in sorted(machine["tools"], key=lambda tool: -tool["length_ns"])[:_MOST_TOOLS]:
        yield f"  {_time(tool['length_ns']):>10}  {tool['name']}: {'; '.join(_iter_parts(tool))}"
        if tool["figures"]:
            yield f"{'':14}{render_figures(tool['figures'], tool['processes'])}"
    for process in machine["disputed"][:_MOST_DISPUTED]:
        name, calls = process["name"] or "a process", " or ".join(map(str, process["tools"]))
        yield f"  {_time(process['length_ns']):>10}  {name} {process['pid']}: of {calls}"
        if process["figures"]:
            yield f"{'':14}{render_figures(process['figures'], 1)}"


def _iter_parts(tool: dict[str, Any]) -> Iterable[str]:
    """Yield what is to be said of one tool, each in a clause."""
    if tool["is_in_process"]:
        yield "in the harness's own process"
    elif tool["processes"] or tool["outliving"]:
        how = " and ".join(_EVIDENCE[evidence] for evidence in tool["evidence"])
        yield f"{tool['processes'] + tool['outliving']} processes ({how})"
        yield f"{_time(tool['in_processes_ns'])} in them"
        if tool["harness_ns"] is not None:
            yield f"{_time(tool['harness_ns'])} in the harness"
    elif not tool["disputed"]:
        yield "no process began in it"
    if tool["outliving"]:
        yield f"{tool['outliving']} outlived it, and their figures are not in it"
    if tool["disputed"]:
        yield f"{tool['disputed']} processes are its own or of {', '.join(tool['disputed_with'])}, nobody can tell"
    if tool["beside"]:
        yield f"{tool['beside']} of before ran beside"


def render_figures(figures: dict[str, dict[str, Any]], processes: int) -> str:
    """Return figures in one line; of those that not every process had, how many did."""
    parts = []
    for name, row in figures.items():
        whole = "" if row["of"] == processes else f" (of {row['of']} of them)"
        parts.append(f"{name} {_render_value(row['value'], row['unit'])}{' at most' if row['is_peak'] else ''}{whole}")
    return ", ".join(parts)


def _render_value(value: float, unit: str | None) -> str:
    if unit == "ns":
        return _time(int(value))
    if unit == "bytes":
        size, place = float(value), 0
        while size >= 1024 and place < len(_SIZES) - 1:
            size, place = size / 1024, place + 1
        return f"{size:.1f} {_SIZES[place]}" if place else f"{int(value)} B"
    return f"{value:g} {unit}" if unit else f"{value:g}"


def _time(value_ns: int) -> str:
    return f"{value_ns / 1e9:.3f} s"
