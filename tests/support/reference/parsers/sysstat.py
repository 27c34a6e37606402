"""sysstat's pidstat, mpstat, iostat and sar: the rows of their last heading that are averages of the whole run."""

from __future__ import annotations

from reference.parsing import Figures, UnreadableError, parse_number, parse_tables


def _average(text: str, *mark: str) -> dict[str, str]:
    """Return the one row of averages. Raises UnreadableError where there is none, or several."""
    rows = [row for row in parse_tables(text, *mark) if "Average:" in row.values()]
    if len(rows) != 1:
        raise UnreadableError(f"{len(rows)} rows of averages, and one is expected")
    return rows[0]


def parse_pidstat_memory(text: str) -> Figures:
    """Read `pidstat -r -p PID 1 1`: kB of 1024 bytes, and faults a second."""
    row = _average(text, "minflt/s", "RSS")
    return {"rss_bytes": parse_number(row["RSS"]) * 1024, "virtual_bytes": parse_number(row["VSZ"]) * 1024}
