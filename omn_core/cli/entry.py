"""The console script. It answers `--version` before anything heavy is imported, and turns every error into its line."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Sequence

from omn_core.cli.streams import complain, drop_stream, open_streams

REFUSED = "omn: this machine refused the request; nothing ran"
FAILED = "omn: the run failed before any result was written"
FAILED_AFTER = "omn: the run failed after its results were written"
"""The last line of stderr on exit 1 is exactly one of these three, so that a caller may match them."""

_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_TELL_ALONE = frozenset({"catalog", "completion", "help", "list", "plugins", "--help", "--version"})
"""What runs nothing: a reader that closes its pipe has read what it wanted, and nothing failed (`omn list | head`)."""

_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)
_COLLECTED_AFTER = 150_000
"""How many objects are added between two passes of the collector: starting keeps nearly all of a hundred thousand."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 served, 1 the machine or the run, 2 the request, 3 the build."""
    gc.set_threshold(_COLLECTED_AFTER)
    open_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:  # outside a run, which takes its signals itself; while things are imported too
        return _fail("SIGINT came and aborted the run")
    except BrokenPipeError as error:
        return _leave_reader() if not arguments or arguments[0] in _TELL_ALONE else _fail_on(error)
    except OSError as error:
        return _fail_on(error)
    except Exception:
        return _fail_unforeseen()
    return code


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        from omn_core import __version__

        print(f"omn {__version__}")
        return 0
    from omn_core.kept_methods import keep_methods

    with keep_methods():
        from omn_core.cli.app import run_command

        return run_command(arguments)


def _leave_reader() -> int:
    drop_stream(sys.stdout)
    return 0


def _fail_on(error: OSError) -> int:
    """Say what the system refused. Only the answer is written without naming a file."""
    if error.errno in _NO_MORE_FILES:
        return _fail(f"omn may open no more files: {error.strerror}\n     raise the limit (`ulimit -n`)")
    if error.filename is None and error.errno in _UNWRITABLE:
        return _fail(f"the answer could not be written: {error.strerror}")
    return _fail_unforeseen()


def _fail(reason: str) -> int:
    drop_stream(sys.stdout)
    complain(f"omn: {reason}\n{FAILED}")
    return 1


def _fail_unforeseen() -> int:
    """Say what nobody foresaw with all that is known of it, and end as every failure does."""
    import traceback

    complain(traceback.format_exc().rstrip("\n"))
    return _fail("this is a fault of omn's own; the lines above are what its maintainers need to mend it")


if __name__ == "__main__":
    sys.exit(main())
