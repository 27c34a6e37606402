"""What people and models wrote: kept within bounds where content is on, never looked at where it is off."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from omn_export.perfetto.annotations import Bounds

from omn_agent.harness import Harness

BOUNDS = {
    "args": Bounds(values=128, levels=8, units=65_536, flag="args_truncated"),
    "text": Bounds(units=65_536, flag="truncated"),
}
"""The contract's bounds of recorded content, by annotation."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def is_content_kept(harness: Harness) -> bool:
    """Return whether prompts and arguments are to be recorded: unless AGENTPROF_CAPTURE_CONTENTS is 0.

    Pi's other recorder is told by a switch of its own to leave arguments out: whoever set it wants none recorded.
    """
    if harness is Harness.PI and os.environ.get("PI_TRACING_CAPTURE_CONTENTS") == "0":
        return False
    return os.environ.get("AGENTPROF_CAPTURE_CONTENTS", "1") != "0"


def describe_input(args: Any) -> dict[str, Any]:
    """Return `bytes`, the whole input as compact JSON in UTF-8, and `keys` of an object; of what is no JSON that."""
    try:
        text = json.dumps(args, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return {"serializable": False}
    # JSON spells half a surrogate pair as an escape of six bytes.
    described: dict[str, Any] = {"bytes": len(_LONE_SURROGATE.sub("......", text).encode())}
    if isinstance(args, Mapping) and args:
        described["keys"] = [str(key) for key in args]
    return described


def count_lines(source: str) -> int:
    """Return a script's physical lines: blank ones count, an end of line at the very end begins no other."""
    return len(source.removesuffix("\n").split("\n")) if source else 0
