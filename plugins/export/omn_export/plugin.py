"""The plugin `export`: formats that other tools read."""

from __future__ import annotations

from collections.abc import Sequence

from omn_core.api import FormatRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_formats() -> Sequence[FormatRow]:
    """Return the formats of this distribution."""
    return (
        FormatRow("pprof", "omn_export.as_pprof:PPROF", "stacks for go tool pprof and its like", emits=("stack",)),
        FormatRow("html", "omn_export.as_html:HTML", "stacks as a flame graph in one page", emits=("stack",)),
        FormatRow("perfetto", "omn_export.as_perfetto:PERFETTO", "a trace for Perfetto's interface"),
    )
