"""A run in a process of its own: what it hands back, what refuses it, and what becomes of it with its caller."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from omn_core.api import (
    Beside,
    Document,
    EmitSpec,
    LeftOut,
    Refused,
    Request,
    RunFailed,
    Session,
    Target,
    Whose,
    start_alongside,
)
from omn_core.catalog.load import load_catalog
from omn_core.plugins import discover
from omn_core.resolve.probes import ProbeTable
from omn_core.run.alongside import Alongside


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps until it is killed."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def make(document: Document, left_out: Sequence[LeftOut]) -> bytes:
    """Say who ran, what of, and what was left out."""
    kept = [result.resolved.entry.id for result in document.results]
    return repr((os.getsid(0) == os.getpid(), kept, [one.request.source for one in left_out])).encode()


def start(*requests: Request, wished: tuple[Request, ...] = (), made: object = make) -> Alongside:
    """Start a run beside this process."""
    registry = discover()
    beside = Beside(Session(requests), wished, made)  # type: ignore[arg-type]
    return start_alongside(registry, load_catalog(registry, None), ProbeTable(registry), beside)


def ask(pid: int, source: str = "mem.rss") -> Request:
    """Return a request about a process."""
    return Request(source, mode="poll", emits=(EmitSpec("summary"),), target=Target("pid", (pid,)))


def test_it_hands_back_what_is_made_of_its_document(sleeper: subprocess.Popen[bytes]) -> None:
    """In a session of its own; what is wished and refused is left out and told."""
    run = start(ask(sleeper.pid), wished=(ask(sleeper.pid, "mem.nothing"), ask(sleeper.pid, "proc.threads")))
    try:
        run.wait_attached()
        sleeper.kill()
        assert run.finish() == repr((True, ["mem.rss", "proc.threads"], ["mem.nothing"])).encode()
    finally:
        run.close()


def test_its_window_is_closed_when_it_is_said(sleeper: subprocess.Popen[bytes]) -> None:
    """The process that it is about goes on."""
    run = start(ask(sleeper.pid))
    try:
        run.wait_attached()
        assert b"mem.rss" in run.finish()
        assert sleeper.poll() is None
    finally:
        run.close()


def test_what_refuses_it_is_raised_with_whose_it_is(sleeper: subprocess.Popen[bytes]) -> None:
    """As the run itself would have refused; and what fails in it afterwards is said."""

    def fail(document: Document, left_out: Sequence[LeftOut]) -> bytes:
        raise ValueError("nothing to make")

    refused = start(ask(sleeper.pid, "mem.nothing"))
    with pytest.raises(Refused, match=r"mem\.nothing") as caught:
        refused.wait_attached()
    refused.close()
    assert caught.value.whose is Whose.REQUEST
    failing = start(ask(sleeper.pid), made=fail)
    failing.wait_attached()
    with pytest.raises(RunFailed, match="ValueError: nothing to make"):
        failing.finish()
    failing.close()
    killed = start(ask(sleeper.pid))
    killed.wait_attached()
    os.kill(killed.pid, signal.SIGKILL)
    with pytest.raises(RunFailed, match="ended unasked"):
        killed.finish()
    killed.close()


CALLER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_run_alongside import ask, start
run = start(ask(int(sys.argv[2])))
run.wait_attached()
print(run.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_it_is_killed_where_its_caller_dies(sleeper: subprocess.Popen[bytes]) -> None:
    """However the caller dies: nothing of a run is left that nobody waits for."""
    folder = os.path.dirname(__file__)
    caller = [sys.executable, "-c", CALLER, folder, str(sleeper.pid)]
    with subprocess.Popen(caller, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        try:
            descriptor = os.pidfd_open(int(said))
        except ProcessLookupError:
            return
    assert select.select([descriptor], [], [], 30)[0]
    os.close(descriptor)
