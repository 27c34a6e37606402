"""A session run in a process of its own, beside a command that holds the process it is about.

The command goes on with its own work meanwhile: neither waits for the other's ticks. What the run says of itself, and
what is made of its answers, comes back as bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import attrs

from omn_core.errors import PLUGIN_FAULTS, OmnError, Refused, RunFailed, Whose
from omn_core.model.catalog import Catalog
from omn_core.model.request import LeftOut, Request, Session
from omn_core.model.result import Document
from omn_core.plugins import Registry
from omn_core.resolve.probes import ProbeTable
from omn_core.run import linux
from omn_core.run.events import Moment, RunEvent
from omn_core.run.launcher import fork

_PR_SET_PDEATHSIG = 1

Make = Callable[[Document, Sequence[LeftOut]], bytes]
"""What makes the bytes that are handed back: of the run's document, and of the wished requests that were left out."""


@attrs.frozen
class Beside:
    """What is run: a session, `wished` requests that are left out where this machine or this build refuses them."""

    session: Session
    wished: tuple[Request, ...]
    make: Make


@attrs.define(eq=False)
class Alongside:
    """A run under way in a process of its own."""

    pid: int
    pidfd: int
    _words: int
    _made: int

    def wait_attached(self) -> None:
        """Wait until everything is attached and the window opens. Raises what refused the run, or RunFailed."""
        word = self._read_word()
        if word.get("attached") is not True:
            self._raise(word)

    def finish(self) -> bytes:
        """Close the window, where its processes have not ended yet, and return what was made of it.

        Raises RunFailed where the run could not be finished.
        """
        linux.send_signal(self.pidfd, signal.SIGTERM)
        word = self._read_word()
        if word.get("made") is not True:
            self._raise(word)
        with open(os.dup(self._made), "rb") as file:
            file.seek(0)
            return file.read()

    def close(self) -> None:
        """End it, wherever it is, and let go of it."""
        linux.send_signal(self.pidfd, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        for descriptor in (self.pidfd, self._words, self._made):
            os.close(descriptor)

    def _read_word(self) -> dict[str, Any]:
        """Read one word of the process, an empty one where it is gone."""
        line = bytearray()
        while not line.endswith(b"\n") and (part := os.read(self._words, 1)):
            line += part
        return dict(json.loads(line)) if line.endswith(b"\n") else {}

    def _raise(self, word: dict[str, Any]) -> NoReturn:
        if "refused" in word:
            whose, reason, remedy = word["refused"]
            raise Refused(Whose(whose), reason, remedy)
        raise RunFailed(word.get("failed", "the process of the run beside the program ended unasked"))


def start_alongside(registry: Registry, catalog: Catalog, probes: ProbeTable, beside: Beside) -> Alongside:
    """Start a process that resolves and carries out a session.

    It is in a session of its own, so that no key of the terminal's reaches it, holds none of the caller's
    descriptors, and is killed where the caller dies. Raises RunFailed where there can be no such process.
    """
    words_read, words = os.pipe2(os.O_CLOEXEC)
    made = os.memfd_create("omn-alongside", os.MFD_CLOEXEC)
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        caller = os.getpid()
        pid = fork()
        if pid == 0:
            _be_the_run(caller, mask, words, made, lambda: _carry_out(registry, catalog, probes, beside, words))
        return Alongside(pid, linux.open_pidfd(pid), words_read, made)
    except OSError as error:
        raise RunFailed(f"no process could be made for the run beside the program: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(words)


def _be_the_run(caller: int, mask: set[Any], words: int, made: int, carry_out: Callable[[], bytes]) -> NoReturn:
    """Be the child until the end of the run, and tell on `words` what became of it."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != caller:
            os._exit(1)
        os.setsid()
        _drop_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _drop_descriptors({2, words, made})
        with open(made, "wb", closefd=False) as file:
            file.write(carry_out())
        _say(words, made=True)
    except Refused as refused:
        _say(words, refused=(refused.whose.value, refused.reason, refused.remedy))
    except OmnError as error:
        _say(words, failed=str(error))
    except PLUGIN_FAULTS as error:  # a main of its own: nothing above it would say what happened
        _say(words, failed=f"the run beside the program raised {type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _drop_signals() -> None:
    """Let go of the caller's handlers, and of the descriptor that they wake."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)


def _drop_descriptors(kept: set[int]) -> None:
    """Close what the caller holds: a pipe or a lock that this process held too would outlive it there."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _say(words: int, **word: Any) -> None:
    os.write(words, json.dumps(word).encode() + b"\n")


def _carry_out(registry: Registry, catalog: Catalog, probes: ProbeTable, beside: Beside, words: int) -> bytes:
    """Resolve the session with what is wished and served, run it, and return what is made of its document."""
    from omn_core.resolve.session import resolve_session, validate_session
    from omn_core.run.environment import read_environment
    from omn_core.run.interrupts import Interrupts
    from omn_core.run.runner import RunOptions, carry_out

    environment = read_environment(probes.sysroot)

    def resolve(session: Session) -> Any:
        return resolve_session(validate_session(session, catalog, registry), registry, probes, environment)

    left_out = []
    requests = list(beside.session.requests)
    for request in beside.wished:
        try:
            resolve(attrs.evolve(beside.session, requests=(request,)))
        except Refused as refused:
            left_out.append(LeftOut(request, str(refused)))
        else:
            requests.append(request)

    def observe(event: RunEvent) -> None:
        if event.moment is Moment.ATTACHED:
            _say(words, attached=True)

    resolved = resolve(attrs.evolve(beside.session, requests=tuple(requests)))
    options = RunOptions(sysroot=probes.sysroot, observers=(observe,))
    with Interrupts(aborts_early=False) as interrupts:  # whoever waited for the attach may end it before it opens
        document = carry_out(resolved, registry, options, interrupts)
    return beside.make(document, left_out)
