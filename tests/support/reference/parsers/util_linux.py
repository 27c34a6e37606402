"""util-linux: prlimit."""

from __future__ import annotations

from reference.parsing import Figures, parse_number, parse_tables


def parse_prlimit(text: str) -> Figures:
    """Read `prlimit --raw --output RESOURCE,SOFT,HARD`: what is limited, `NOFILE.soft`; unlimited is no figure."""
    return {
        f"{row['RESOURCE']}.{name.lower()}": parse_number(row[name])
        for row in parse_tables(text, "RESOURCE", "SOFT", "HARD")
        for name in ("SOFT", "HARD")
        if row[name] != "unlimited"
    }
