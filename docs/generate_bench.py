"""Write the manual's page on what mechanisms cost from the bench's record: `python docs/generate_bench.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from bands.table import Measured, Row, Unmeasured, compute_least, find_band, group, read_record  # noqa: E402  as above

PAGE = ROOT / "docs" / "bench.md"

HEAD = """# What mechanisms cost

Every mechanism that somebody collects was run beside its family's reference workload: a program of one process or two
that does what the family's sources hear at the rate of a busy program, with work of its own between
(`tests/support/bands/workload.py`). Shares are of that workload's cpu time, in percent.

- *omn* is omn's own cpu time in the window. What a run costs once is left out: a run of a second is held against one of
  a fifth of a second. A polled source is read twenty times a second, and its share is that of one reading a second.
- *inside* is what was spent inside the workload: the kernel's account of eBPF programs, made with
  `kernel.bpf_stats_enabled`, or nothing where files are read. Where nothing accounts for it, it is how much more cpu
  time a round of the workload took than in the bare run before it, the median of pairs; `+-` is how far that may be off
  (95 %). More than one percent of it is asked for more pairs; what is still above is shown as it is, and a band is held
  to the least that it may be.
- *events/s* is for each second of the workload's cpu time.
- *band* is that of the larger share of the dearest mode, and the one that the catalog declares must hold it; it may be
  the next one above, and more where the workload gave a mechanism little to hear, since busier programs exist.

Measured on the machine that the other pages speak of: two virtual cpus under KVM, Linux 6.18.
"""


def render_page(rows: Sequence[Row]) -> str:
    """Return the page's text."""
    lines = [HEAD]
    families = dict.fromkeys(row.source.partition(".")[0] for row in rows)
    for family in families:
        own = [row for row in rows if row.source.startswith(f"{family}.")]
        lines += [f"## {family}", "", *_iter_table(own), ""]
    lines += ["## Not measured", "", *_iter_unmeasured(rows), ""]
    return "\n".join(lines)


def _iter_table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of a family's mechanisms, a row a mode."""
    measured = [row for row in rows if isinstance(row, Measured)]
    if not measured:
        yield "Nothing could be measured."
        return
    yield "| source | mechanism | mode | events/s | omn | inside | band |"
    yield "|---|---|---|---|---|---|---|"
    for (source, backend), of_backend in group(measured).items():
        least = compute_least(of_backend)
        band = "" if least is None else find_band(least)
        for place, row in enumerate(of_backend):
            assert isinstance(row, Measured)
            off = f" +- {row.spread:.2g}" if row.spread else ""
            names = (f"`{source}`", f"`{backend}`") if place == 0 else ("", "")
            shown = band if place == 0 else ""
            shares = f"{row.own:.2g} | {row.inside:.2g}{off}"
            yield f"| {names[0]} | {names[1]} | {row.mode} | {row.events} | {shares} | {shown} |"


def _iter_unmeasured(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the table of what was not measured, and why."""
    yield "| source | mechanism | because |"
    yield "|---|---|---|"
    for row in rows:
        if isinstance(row, Unmeasured):
            yield f"| `{row.source}` | `{row.backend}` | {row.reason} |"


if __name__ == "__main__":
    PAGE.write_text(render_page(read_record()))
