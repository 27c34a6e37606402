"""The core's own plugin: the targets, emits, formats and commands that are always there."""

from __future__ import annotations

from collections.abc import Sequence

from omn_core.cli.rows import COMMANDS
from omn_core.hookspecs import hookimpl
from omn_core.model.rows import CommandRow, EmitRow, FormatRow, TargetRow

OMN_CONTRACT = "1.0"


@hookimpl
def omn_targets() -> Sequence[TargetRow]:
    """Return the kinds of target that need nothing but a process table."""
    return tuple(TargetRow(kind, f"omn_core.run.binding:bind_{kind}") for kind in ("launch", "pid", "tid", "system"))


@hookimpl
def omn_commands() -> Sequence[CommandRow]:
    """Return the core's subcommands."""
    return COMMANDS


@hookimpl
def omn_emits() -> Sequence[EmitRow]:
    """Return the core's emits."""
    return (
        EmitRow("count", "omn_core.emit.count:COUNT", "one closing figure"),
        EmitRow(
            "summary",
            "omn_core.emit.summary:SUMMARY",
            "count, least, greatest, mean, percentiles; a total where values add up",
            takes_attribute="optional",
        ),
        EmitRow("hist", "omn_core.emit.hist:HIST", "a distribution in buckets", takes_attribute="optional"),
        EmitRow("rate", "omn_core.emit.rate:RATE", "the total over the window's length", adds_up=True),
        EmitRow(
            "topk",
            "omn_core.emit.topk:TOPK",
            "what the total is made of, greatest first",
            adds_up=True,
            takes_count=True,
            takes_attribute="optional",
        ),
        EmitRow("raw", "omn_core.emit.raw:RAW", "the events themselves", lists_events=True),
        EmitRow("stack", "omn_core.emit.stack:STACK", "where in the code, as stacks with their weight", adds_up=True),
        EmitRow("timeline", "omn_core.emit.timeline:TIMELINE", "the measurement over time"),
    )


@hookimpl
def omn_formats() -> Sequence[FormatRow]:
    """Return the core's formats. Those that say nothing of it carry every emit."""
    return (
        FormatRow("text", "omn_core.format.as_text:TEXT", "for reading on a terminal", carries_documents=True),
        FormatRow("json", "omn_core.format.as_json:JSON", "one JSON document", carries_documents=True),
        FormatRow("yaml", "omn_core.format.as_yaml:YAML", "one YAML 1.2 document", carries_documents=True),
        FormatRow("toml", "omn_core.format.as_toml:TOML", "one TOML 1.0 document", carries_documents=True),
        FormatRow("ndjson", "omn_core.format.as_ndjson:NDJSON", "a JSON value a line: events, answers, the run"),
        FormatRow(
            "folded",
            "omn_core.format.as_folded:FOLDED",
            "a stack a line, for flame graph scripts",
            emits=("stack",),
            tells_losses=False,
        ),
        FormatRow(
            "speedscope",
            "omn_core.format.as_speedscope:SPEEDSCOPE",
            "stacks for speedscope",
            emits=("stack",),
            tells_losses=False,
        ),
        FormatRow("chrome", "omn_core.format.as_chrome:CHROME", "trace events for chrome://tracing and its like"),
    )
