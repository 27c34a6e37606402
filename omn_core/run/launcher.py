"""A program started and held before its exec, so that everything can be bound to it before it runs.

The child is a fork of omn that waits on a pipe. A byte releases it into one execve; the pipe's end, because omn died,
makes it exit: no child is ever left behind stopped. It stays in omn's process group and session with omn's stdin,
stdout, stderr and terminal; signal dispositions, mask and capabilities are those it would have without omn.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import time
import warnings
from collections.abc import Mapping
from typing import Any, NoReturn

import attrs

from omn_core.errors import MachineRefused, RunFailed
from omn_core.run import linux
from omn_core.run.linux_exec import Exec, make_program_environment
from omn_core.run.linux_privileges import Inherited, find_lent, give_up
from omn_core.run.search import explain_refusal

_READY = b"r"
_STEP = b"s"
_ERRNO = struct.Struct("i")
# Python ignores these two at its start, whatever they were.
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)


@attrs.frozen(repr=False)
class LaunchPlan:
    """A program to launch: its path, its arguments (the name first), and where its output goes if not to omn's own.

    `ignored` are the signals that were ignored before omn handled them. `environment` is the program's, omn's own where
    it is None; `open_files` is its soft limit of open files, omn's where it is None.
    """

    path: str
    arguments: tuple[str, ...]
    stdout: str | None = None
    stderr: str | None = None
    ignored: frozenset[int] = frozenset()
    environment: Mapping[bytes, bytes] | None = None
    open_files: int | None = None


@attrs.define(eq=False, repr=False)
class Launched:
    """A program held before its exec, or running, or ended and not yet reaped: its number is its own until `reap`."""

    plan: LaunchPlan
    pid: int
    pidfd: int
    start_ticks: int
    _release: int
    _status: int
    released_ns: int | None = None
    ended_ns: int | None = None
    exit: dict[str, Any] | None = None

    def release(self) -> None:
        """Let the program run. Returns once it executes; raises MachineRefused where the kernel will not have it."""
        self.released_ns = time.monotonic_ns()
        try:
            os.write(self._release, _STEP)
        except BrokenPipeError:
            raise RunFailed("the program's process was killed before it could run") from None
        answer = _read_to_end(self._status)
        if answer:
            raise explain_refusal(self.plan.path, _ERRNO.unpack(answer)[0])

    def note_end(self) -> None:
        """Keep when and how the program ended, once its pidfd says it has; it stays unreaped for the closing round."""
        if self.ended_ns is None:
            self.ended_ns = time.monotonic_ns()
            self.exit = linux.find_exit(self.pid)

    def abandon(self) -> None:
        """End and reap a child that has not executed its program."""
        linux.send_signal(self.pidfd, signal.SIGKILL)
        self.wait()
        linux.reap(self.pid)

    def wait(self) -> None:
        """Wait until the process has ended."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        poll.poll()

    def close(self) -> None:
        """Let go of the descriptors."""
        for descriptor in (self._release, self._status, self.pidfd):
            os.close(descriptor)


def launch(plan: LaunchPlan) -> Launched:
    """Start a program and hold it before its exec.

    Raises MachineRefused where its output files cannot be opened or no process can be made.
    """
    environment = make_program_environment() if plan.environment is None else plan.environment
    call = Exec(os.fsencode(plan.path), [os.fsencode(part) for part in plan.arguments], environment)
    outputs = _open_outputs(plan)
    pipes: list[int] = []
    try:
        pipes += os.pipe2(os.O_CLOEXEC)
        pipes += os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        for descriptor in (*pipes, *outputs.values()):
            os.close(descriptor)
        raise _refuse_process(error) from error
    release_read, release_write, status_read, status_write = pipes
    # A signal between the fork and the child's own dispositions would run omn's handlers in the child.
    lent = find_lent()
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = fork()
        if pid == 0:
            os.close(release_write)
            _be_the_child(plan, call, outputs, (mask, lent), (release_read, status_write))
    except OSError as error:
        os.close(release_write)
        os.close(status_read)
        raise _refuse_process(error) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for descriptor in (release_read, status_write, *outputs.values()):
            os.close(descriptor)
    return _wait_until_held(plan, pid, release_write, status_read)


def _refuse_process(error: OSError) -> MachineRefused:
    return MachineRefused(f"no process could be made for the program: {error.strerror}")


def fork() -> int:
    """Fork, whatever threads a library keeps (numpy's): they wait, and hold no lock that a child would wait for."""
    with warnings.catch_warnings():
        # Python 3.12 warns when other threads exist.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _wait_until_held(plan: LaunchPlan, pid: int, release: int, status: int) -> Launched:
    try:
        pidfd = linux.open_pidfd(pid)
    except OSError as error:
        os.close(release)
        os.close(status)
        os.waitpid(pid, 0)
        raise MachineRefused(f"this kernel gives no pidfd, which a run needs: {error.strerror}", "Linux 5.3") from error
    launched = Launched(plan, pid, pidfd, 0, release, status)
    with contextlib.suppress(BrokenPipeError):  # it was killed already: nothing is read from it then
        os.write(release, _STEP)
    stat = linux.find_stat(pid)
    if os.read(status, 1) != _READY or stat is None:
        launched.abandon()
        launched.close()
        raise RunFailed("the program's process was killed before it could run")
    launched.start_ticks = stat.start_ticks
    return launched


def _open_outputs(plan: LaunchPlan) -> dict[int, int]:
    """Open the files of the program's own output, private to the user, by the descriptor they stand for."""
    opened: dict[int, int] = {}
    for target, path in ((1, plan.stdout), (2, plan.stderr)):
        if path is None:
            continue
        try:
            opened[target] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            if target == 2 and 1 in opened and os.path.sameopenfile(opened[1], opened[2]):
                # Two descriptions of one file would each write over what the other wrote.
                os.dup2(opened[1], opened[2], inheritable=False)
        except OSError as error:
            for descriptor in opened.values():
                os.close(descriptor)
            name = "stdout" if target == 1 else "stderr"
            raise MachineRefused(f"the program's {name} cannot go to {path!r}: {error.strerror}") from error
    return opened


def _be_the_child(
    plan: LaunchPlan,
    call: Exec,
    outputs: dict[int, int],
    changed: tuple[set[Any], Inherited],
    pipes: tuple[int, int],
) -> NoReturn:
    """Put back what is omn's own, the mask of signals and lent capabilities, and wait to become the program."""
    (mask, lent), (release, status) = changed, pipes
    try:
        give_up(lent)
        if plan.open_files is not None:
            linux.limit_open_files(plan.open_files)
        for target, descriptor in outputs.items():
            os.dup2(descriptor, target)
        _restore_signals(plan.ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # The first step is a rehearsal of the second: what both run through is in the child's own memory by then.
        for step, answer in ((call.rehearse, _READY), (call.execute, b"")):
            if os.read(release, 1) != _STEP:
                os._exit(0)
            number = step()
            os.write(status, answer or _ERRNO.pack(number))
    finally:
        os._exit(127)


def _restore_signals(ignored: frozenset[int]) -> None:
    """Give each signal the disposition it would have had without omn: the handlers are omn's, never the program's."""
    for handled in signal.valid_signals():
        if callable(signal.getsignal(handled)):
            signal.signal(handled, signal.SIG_DFL)
    for python_ignores in _PYTHON_IGNORES:
        signal.signal(python_ignores, signal.SIG_DFL)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def _read_to_end(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 64):
        parts.append(part)
    return b"".join(parts)
