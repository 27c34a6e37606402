"""Each tool's output, as captured from the tool, gives the figures that stand in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference.load import load_pairs, load_parser
from reference.parsing import UnreadableError

pytestmark = pytest.mark.spec("BEN-1")
CAPTURES = Path(__file__).parent / "captures"

CASES: list[tuple[str, str, dict[str, float]]] = [
    (
        "debian12/free.txt",
        "procps:parse_free",
        {"total_bytes": 25276502016, "available_bytes": 24722972672, "cache_bytes": 3172614144, "swap_total_bytes": 0},
    ),
    (
        "debian12/pidstat-memory.txt",
        "sysstat:parse_pidstat_memory",
        {"rss_bytes": 3956 * 1024, "virtual_bytes": 5328 * 1024},
    ),
    (
        "debian12/ps-process.txt",
        "procps:parse_ps",
        {"rss_bytes": 4300 * 1024, "threads": 1, "minor": 10551, "major": 0},
    ),
    (
        "debian12/smem.txt",
        "smem:parse_smem",
        {"2143.uss_bytes": 448 * 1024, "2143.pss_bytes": 1105 * 1024, "15312.rss_bytes": 13164 * 1024},
    ),
    ("debian12/uptime.txt", "procps:parse_uptime", {"load1": 0.83, "load5": 1.14, "load15": 1.4}),
    (
        "debian12/vmstat-statistics.txt",
        "procps:parse_vmstat_statistics",
        {"total_bytes": 24684084 * 1024, "forks": 857885, "switches": 12306729, "swapped_out_pages": 393243},
    ),
]


def read_capture(name: str) -> str:
    """Return a captured output."""
    return (CAPTURES / name).read_text()


@pytest.mark.parametrize(("capture", "parser", "expected"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_a_captured_output_gives_its_figures(capture: str, parser: str, expected: dict[str, float]) -> None:
    """Read by eye from the file, converted to omn's units."""
    figures = load_parser(f"reference.parsers.{parser}")(read_capture(capture))
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_every_parser_of_a_pair_is_held_to_a_capture() -> None:
    """A parser that was never shown a tool's output checks nothing."""
    used = {pair.tool.parser for pair in load_pairs()}
    held = {f"reference.parsers.{parser}" for _, parser, _ in CASES}
    assert used - held == set()


@pytest.mark.parametrize("parser", sorted({case[1] for case in CASES}))
@pytest.mark.parametrize("text", ["", "\n", "Segmentation fault\n"])
def test_what_a_tool_never_prints_is_unreadable(parser: str, text: str) -> None:
    """Never a figure, and never zero."""
    with pytest.raises(UnreadableError):
        load_parser(f"reference.parsers.{parser}")(text)
