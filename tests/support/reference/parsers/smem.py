"""smem: the sets of a process, in KiB unless -k or -b."""

from __future__ import annotations

from reference.parsing import Figures, UnreadableError, parse_number, parse_tables


def parse_smem(text: str) -> Figures:
    """Read `smem -c "pid uss pss rss"`: figures by the process, `PID.pss_bytes`."""
    rows = parse_tables(text, "PID", "USS", "PSS", "RSS")
    if not rows:
        raise UnreadableError("no process")
    names = {"USS": "uss_bytes", "PSS": "pss_bytes", "RSS": "rss_bytes"}
    return {f"{row['PID']}.{name}": parse_number(row[head]) * 1024 for row in rows for head, name in names.items()}
