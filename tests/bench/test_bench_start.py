"""How long omn takes to start, as multiples of the interpreter's own start in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROUNDS = 15
OMN = "import sys; from omn_core.cli.entry import main; sys.exit(main())"


def time_once(argv: Sequence[str], environment: dict[str, str]) -> float:
    """Return the seconds of one run."""
    start = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True, env=environment)
    return time.perf_counter() - start


@pytest.mark.parametrize(
    ("arguments", "most"), [(("--version",), 3.0), (("list",), 20.0), (("mem.rss", "--", "true"), 22.0)]
)
def test_start_costs_a_bounded_multiple_of_the_interpreters(
    omn: Any, tmp_path: Path, arguments: tuple[str, ...], most: float
) -> None:
    """The two alternate, so that a machine that slows down slows both; the medians' ratio is printed and bounded.

    Each bound is a third above the larger of what an idle machine and a loaded one measured: 2, 15 and 17.
    """
    environment = omn.environment()
    argv = [sys.executable, "-c", OMN, *arguments]
    time_once(argv, environment)  # fills the catalog's cache: a warm start is what is bounded
    bare, ours = [], []
    for _ in range(ROUNDS):
        bare.append(time_once([sys.executable, "-c", "pass"], environment))
        ours.append(time_once(argv, environment))
    ratio = statistics.median(ours) / statistics.median(bare)
    print(f"\nomn {' '.join(arguments)}: {ratio:.1f}x python3 -c pass (at most {most:g}x)")
    assert ratio <= most
