"""numactl's numastat."""

from __future__ import annotations

import re

from reference.parsing import Figures, UnreadableError, parse_number


def parse_numastat(text: str) -> Figures:
    """Read `numastat -p PID`: what lies on each node, in MB of 1024 kB, `0.bytes`."""
    nodes = re.findall(r"Node (\d+)", text)
    totals = re.search(r"^Total +([\d. ]+)$", text, re.M)
    if not nodes or totals is None:
        raise UnreadableError("no nodes and totals")
    return {
        f"{node}.bytes": parse_number(size) * (1 << 20) for node, size in zip(nodes, totals[1].split(), strict=False)
    }
