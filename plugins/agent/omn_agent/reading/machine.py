"""What the machine did inside each tool, and how the tool's time divides into its processes' and the harness's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from omn_agent.reading.activity import compute_union
from omn_agent.reading.captures import Reading
from omn_agent.reading.processes import ReadProcess, ReadTool, give_processes, make_tools

_STAMP_NS = 1_000_000
"""What harnesses and their files stamp in: whole milliseconds, cut off, so that an end may be so much later."""


def make_machine_report(reading: Reading) -> dict[str, Any] | None:
    """Return what files hold of the machine, None where none was recorded beside its agent."""
    runs, tools, disputed = [], [], []
    for path, spans in reading.machines.items():
        told = [span.args for span in spans if span.kind == "machine"]
        runs += [_describe_run(path, args) for args in told]
        if not any(args.get("has_processes") for args in told):
            continue
        known = make_tools(capture for capture in reading.captures if capture.file == path)
        processes = give_processes((span for span in spans if span.kind == "process"), known)
        tools += [_describe_tool(tool, processes) for tool in known]
        disputed += [_describe_disputed(process) for process in processes if len(process.tools) > 1]
    if not runs:
        return None
    return {"runs": runs, "tools": tools, "disputed": disputed}


def _describe_run(path: str, args: dict[str, Any]) -> dict[str, Any]:
    return {
        "file": path,
        "sources": args.get("sources", []),
        "has_processes": args.get("has_processes") is True,
        "reservations": args.get("reservations", []),
    }


def _describe_tool(tool: ReadTool, processes: Sequence[ReadProcess]) -> dict[str, Any]:
    """Return what a tool's processes did. Those that outlived it are told apart: their figures are not its own."""
    own = [process for process in tool.processes if process.end_ns <= tool.end_ns + _STAMP_NS]
    lives = [
        (max(process.span.start_ns, tool.start_ns), min(process.end_ns, tool.end_ns)) for process in tool.processes
    ]
    length_ns, covered_ns = tool.end_ns - tool.start_ns, compute_union(lives)
    return {
        "name": tool.name,
        "session": tool.capture.session_id,
        "call_id": tool.span.args.get("call_id"),
        "start_ns": tool.start_ns,
        "length_ns": length_ns,
        "is_incomplete": tool.span.is_incomplete,
        "is_in_process": tool.is_in_process,
        "evidence": _list_distinct(process.evidence for process in tool.processes),
        "processes": len(own),
        "outliving": len(tool.processes) - len(own),
        "beside": sum(_is_beside(process, tool) for process in processes),
        "disputed": len(tool.disputed),
        "disputed_with": _list_distinct(
            other.name for process in tool.disputed for other in process.tools if other is not tool
        ),
        "in_processes_ns": covered_ns,
        "harness_ns": None if tool.disputed else length_ns - covered_ns,
        "figures": add_figures(own),
    }


def add_figures(processes: Sequence[ReadProcess]) -> dict[str, dict[str, Any]]:
    """Return each figure over some processes: a sum, or of readings the largest; and how many processes had one."""
    found: dict[str, dict[str, Any]] = {}
    for process in processes:
        figures, units = process.span.args.get("figures", {}), process.span.args.get("units", {})
        peaks = process.span.args.get("peaks", [])
        for name, value in figures.items():
            row = found.setdefault(name, {"unit": units.get(name), "is_peak": name in peaks, "value": 0, "of": 0})
            row["value"] = max(row["value"], value) if row["is_peak"] else row["value"] + value
            row["of"] += 1
    return found


def _is_beside(process: ReadProcess, tool: ReadTool) -> bool:
    """Return whether a process of before ran while a tool did: a server, or what another tool left."""
    is_known = process.is_foreign or tool in process.tools
    return not is_known and process.span.start_ns < tool.start_ns < process.end_ns


def _describe_disputed(process: ReadProcess) -> dict[str, Any]:
    return {
        "name": process.span.args.get("name"),
        "pid": process.span.args.get("pid"),
        "tools": [tool.span.args.get("call_id") for tool in process.tools],
        "length_ns": process.end_ns - process.span.start_ns,
        "figures": add_figures([process]),
    }


def _list_distinct(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value is not None))
