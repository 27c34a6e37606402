"""Run README's second command."""

from __future__ import annotations

import subprocess
import sys

from readme import read_commands


def main() -> int:
    """Return what it returns."""
    command = read_commands()[1]
    print(f"$ {command}", flush=True)
    return subprocess.run(["bash", "-euc", command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
