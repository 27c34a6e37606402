"""What omn-agent brings."""

from __future__ import annotations

from collections.abc import Sequence

from omn_core.api import CommandRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_commands() -> Sequence[CommandRow]:
    """Return the command; what it needs is imported when it is invoked."""
    return (
        CommandRow(
            "agent", "omn_agent.command:agent", "Record coding agents, import their sessions, and read recordings."
        ),
    )
