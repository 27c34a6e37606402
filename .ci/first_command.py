"""Run README's first command, and hold the answer it prints to what its program allocates."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys

from readme import read_commands

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
ALLOCATED = 200 << 20
INTERPRETER = 24 << 20
"""What a bare interpreter holds at most; the answer lies between the allocation and the allocation with it."""

_SIZE = r"([\d.,]+)\s*(B|KiB|MiB|GiB)"


def find_maximum(text: str) -> float | None:
    """Return a summary's `max` in bytes, whether figures stand below one another or in columns."""
    found = re.search(rf"^\s*max\s+{_SIZE}\s*$", text, re.M)
    lines = text.splitlines()
    for head, row in itertools.pairwise(lines):
        column = re.search(r"\bmin\b.*\bmax\b", head)
        if found is None and column is not None:
            found = re.search(rf"{_SIZE}$", row[: column.end()])
    return None if found is None else float(found[1].replace(",", "")) * UNITS[found[2]]


def main() -> int:
    """Return 0 when the printed maximum is the program's memory."""
    command = read_commands()[0]
    print(f"$ {command}", flush=True)
    ran = subprocess.run(["bash", "-euc", command], stdout=subprocess.PIPE, text=True, check=False)
    print(ran.stdout)
    measured = find_maximum(ran.stdout)
    if ran.returncode != 0 or measured is None:
        print(f"README's first command ended with {ran.returncode} and printed no maximum", file=sys.stderr)
        return 1
    if not ALLOCATED <= measured <= ALLOCATED * 1.02 + (1 << 20) + INTERPRETER:
        print(f"it printed {measured / (1 << 20):.1f} MiB for a program that holds 200 MiB", file=sys.stderr)
        return 1
    print(f"the answer is true: {measured / (1 << 20):.1f} MiB for 200 MiB and an interpreter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
