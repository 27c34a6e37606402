"""util-linux: prlimit, lscpu."""

from __future__ import annotations

from reference.parsing import Figures, UnreadableError, parse_number, parse_tables


def parse_prlimit(text: str) -> Figures:
    """Read `prlimit --raw --output RESOURCE,SOFT,HARD`: what is limited, `NOFILE.soft`; unlimited is no figure."""
    return {
        f"{row['RESOURCE']}.{name.lower()}": parse_number(row[name])
        for row in parse_tables(text, "RESOURCE", "SOFT", "HARD")
        for name in ("SOFT", "HARD")
        if row[name] != "unlimited"
    }


def parse_lscpu(text: str) -> Figures:
    """Read `lscpu -p=CPU,MHZ`: each cpu's clock, `0.freq_hz`; one that is not known is no figure."""
    rows = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
    if not rows or any(len(row) != 2 for row in rows):
        raise UnreadableError("no rows of lscpu -p")
    return {f"{cpu}.freq_hz": parse_number(megahertz) * 10**6 for cpu, megahertz in rows if megahertz}
