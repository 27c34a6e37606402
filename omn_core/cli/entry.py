"""The console script. It answers `--version` before anything heavy is imported, and turns every error into its line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

REFUSED = "omn: this machine refused the request; nothing ran"
FAILED = "omn: the run failed before any result was written"
FAILED_AFTER = "omn: the run failed after its results were written"
"""The last line of stderr on exit 1 is exactly one of these three, so that a caller may match them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 served, 1 the machine or the run, 2 the request, 3 the build."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        from omn_core import __version__

        print(f"omn {__version__}")
        return 0
    try:
        from omn_core.cli.app import run_command

        return run_command(arguments)
    except KeyboardInterrupt:  # outside a run, which takes its signals itself; while things are imported too
        print(FAILED, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
