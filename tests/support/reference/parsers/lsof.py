"""lsof: the open files of a process."""

from __future__ import annotations

from reference.parsing import Figures, UnreadableError, parse_tables


def parse_lsof(text: str) -> Figures:
    """Read `lsof -p PID`: how many rows are of descriptors, the others being the folder, the program and mappings."""
    rows = parse_tables(text, "COMMAND", "FD", "NAME")
    if not rows:
        raise UnreadableError("no open file")
    return {"descriptors": sum(row["FD"][0].isdigit() for row in rows)}
