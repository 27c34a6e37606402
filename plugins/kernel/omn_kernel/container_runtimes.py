"""Asking container runtimes which process a container is: docker, podman, nerdctl, or the one that a person names.

A runtime's own files are its business; `container inspect` is what all three have, and it answers alike. This is the
one module that runs another program: a helper, run before anything is measured and in nobody's cpu figure.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

import attrs

from omn_core.api import MachineRefused, RequestError

RUNTIMES = ("docker", "podman", "nerdctl")
PATIENCE_S = 10.0
"""How long one runtime may take: a daemon that hangs must not hang omn."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_UNKNOWN = re.compile(r"no such (container|object)", re.IGNORECASE)
_LONGEST_REASON = 200


@attrs.frozen
class Container:
    """A container as its runtime describes it.

    `asked` is what a person calls it, `identifier` the runtime's own id, `pid` its first process (0 where it has
    none), `status` a word of the runtime's. `others` says which other runtimes could not answer, and why.
    """

    asked: str
    identifier: str
    pid: int
    is_running: bool
    status: str
    runtime: str
    cpu_ns: int = 0
    others: tuple[str, ...] = ()

    def describe(self) -> dict[str, object]:
        """Say which one it is, and who said so, for a result."""
        return {
            "container": self.asked,
            "container_id": self.identifier,
            "container_pid": self.pid,
            "runtime": self.runtime,
            "runtime_cpu_ns": self.cpu_ns,
        }


@attrs.frozen
class Silence:
    """A runtime that gave no answer about a container, and why; `is_unknown` where it answered that it knows none."""

    runtime: str
    reason: str
    is_unknown: bool = False


def get_container(name: str) -> Container:
    """Return a running container that a runtime here knows by a name or an id.

    Every runtime is asked, because two may know the name. Raises RequestError for what can be no container's name,
    MachineRefused where no runtime is installed, none knows it, several do, or it does not run.
    """
    if not _NAME.fullmatch(name):
        raise RequestError(f"{name!r} can be no container's name", "a name holds letters, digits and _ . - alone")
    before_ns = _read_helpers_cpu_ns()
    answers = [ask_runtime(runtime, name) for runtime in find_runtimes()]
    cpu_ns = _read_helpers_cpu_ns() - before_ns
    silent = [answer for answer in answers if isinstance(answer, Silence)]
    # A command of one runtime may be another's under its name: one container then, by one process.
    known = {(one.identifier, one.pid): one for one in reversed(answers) if isinstance(one, Container)}
    if len(known) > 1:
        raise _refuse_several(name, [one for one in answers if isinstance(one, Container)])
    if not known:
        raise _refuse_unknown(name, silent)
    found = next(iter(known.values()))
    if not found.is_running:
        raise MachineRefused(
            f"container {name!r} is not running: {found.runtime} says that it is {found.status}", "start it first"
        )
    others = tuple(f"{one.runtime} {one.reason}" for one in silent if not one.is_unknown)
    return attrs.evolve(found, cpu_ns=cpu_ns, others=others)


def find_runtimes() -> list[str]:
    """Find the runtimes to ask: the one in OMN_CONTAINER_RUNTIME, a path or a name, else each that is on PATH.

    Raises MachineRefused where there is none.
    """
    named = os.environ.get("OMN_CONTAINER_RUNTIME")
    if named:
        if shutil.which(named) is None:
            raise MachineRefused(f"OMN_CONTAINER_RUNTIME is {named!r}, and no such program can be executed")
        return [named]
    found = [runtime for runtime in RUNTIMES if shutil.which(runtime) is not None]
    if not found:
        raise MachineRefused(
            f"no container runtime is installed here: none of {', '.join(RUNTIMES)} is on PATH",
            "name another one in OMN_CONTAINER_RUNTIME, or name the container's cgroup with --cgroup",
        )
    return found


def ask_runtime(runtime: str, name: str) -> Container | Silence:
    """Ask one runtime about a container, for no longer than it may take."""
    try:
        code, output, complaint = _run([runtime, "container", "inspect", name])
    except TimeoutError:
        return Silence(runtime, f"did not answer within {PATIENCE_S:g} s")
    except OSError as error:
        return Silence(runtime, f"could not be executed: {error.strerror}")
    if code != 0:
        return _explain_failure(runtime, code, complaint)
    try:
        return parse_inspection(output, name, runtime)
    except ValueError as error:
        return Silence(runtime, f"answered with something that describes no container ({error})")


def _run(argv: Sequence[str]) -> tuple[int, bytes, bytes]:
    """Run a helper in a session of its own, so that all of it can be ended. Raises TimeoutError past its time."""
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as helper:
        try:
            output, complaint = helper.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            if helper.returncode is None:
                os.killpg(helper.pid, signal.SIGKILL)
    return helper.returncode, output, complaint


def _explain_failure(runtime: str, code: int, complaint: bytes) -> Silence:
    lines = [line.strip() for line in complaint.decode("utf-8", "replace").splitlines() if line.strip()]
    if any(_UNKNOWN.search(line) for line in lines):
        return Silence(runtime, "knows none of that name", is_unknown=True)
    said = f": {lines[0][:_LONGEST_REASON]}" if lines else ""
    return Silence(runtime, f"could not answer (exit {code}){said}")


def parse_inspection(output: bytes, name: str, runtime: str) -> Container:
    """Parse what `container inspect` prints: a list of one object with Id and State. Raises ValueError for another.

    A paused container has its process and is not `Running` to podman; a stopped one has none, or one that has ended.
    """
    plain: Any = json.loads(output)
    if not isinstance(plain, list) or len(plain) != 1 or not isinstance(plain[0], dict):
        raise ValueError("no list of one object")
    identifier, state = plain[0].get("Id"), plain[0].get("State")
    if not isinstance(identifier, str) or not identifier or not isinstance(state, dict):
        raise ValueError("it has no Id and State")
    pid, is_running, is_paused = state.get("Pid"), state.get("Running"), state.get("Paused", False)
    if isinstance(pid, bool) or not isinstance(pid, int) or not isinstance(is_running, bool):
        raise ValueError("its State has no Pid and Running")
    status = state.get("Status")
    return Container(
        name, identifier, pid, pid > 0 and (is_running or bool(is_paused)), str(status or "stopped"), runtime
    )


def _refuse_several(name: str, known: Sequence[Container]) -> MachineRefused:
    listed = " and ".join(f"{one.runtime} ({one.identifier[:12]})" for one in known)
    return MachineRefused(f"several runtimes have a container {name!r}: {listed}", "say which in OMN_CONTAINER_RUNTIME")


def _refuse_unknown(name: str, silent: Sequence[Silence]) -> MachineRefused:
    reasons = "; ".join(f"{one.runtime} {one.reason}" for one in silent)
    runtime = silent[0].runtime
    remedy = f"'{runtime} ps' shows those that run" if all(one.is_unknown for one in silent) else None
    return MachineRefused(f"no runtime here tells of a container {name!r}: {reasons}", remedy)


def _read_helpers_cpu_ns() -> int:
    """Read the cpu of the processes that omn has waited for: before a run, helpers alone."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)
